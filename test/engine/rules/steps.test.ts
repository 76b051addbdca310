import { type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { inSlices, type Steps } from '../../../src/engine/rules/compile/steps.ts';

const NODES_A_TURN = 32;
const NODES_A_COLLECTION = 64;

test.each([1, 0.1, 5])('steps of %d nodes are taken in turns, between which garbage is collected', async (nodes) => {
  const sizes = { turn: 0, collection: 0 };
  const seen: { readonly turns: number[]; readonly collections: number[] } = { turns: [], collections: [] };
  function* work(): Steps<string> {
    for (let step = 0; step < 5_000; step++) {
      sizes.turn += nodes;
      sizes.collection += nodes;
      yield nodes;
    }
    return 'done';
  }
  const pause = async (): Promise<void> => {
    seen.turns.push(sizes.turn);
    sizes.turn = 0;
  };
  const collect = (): void => {
    expect(sizes.turn).toBe(0); // it runs in a separate turn
    seen.collections.push(sizes.collection);
    sizes.collection = 0;
  };
  expect(await inSlices(work(), { pause, collect })).toBe('done');
  expect(Math.max(...seen.turns)).toBeLessThan(NODES_A_TURN + nodes);
  expect(seen.collections.length).toBeGreaterThan(1);
  expect(Math.max(...seen.collections)).toBeLessThan(NODES_A_COLLECTION + NODES_A_TURN + nodes);
  expect(seen.turns.filter((turn) => turn === 0)).toHaveLength(seen.collections.length);
});

/** Work after which the young generation is collected so many times. */
function* collections(times: number): Steps<void> {
  for (let at = 0; at < times; at++) yield NODES_A_COLLECTION;
}

type GcEntry = PerformanceEntry & { readonly detail?: { readonly kind?: number } };

test('the young generation is collected separately', async () => {
  const MINOR = 1; // perf_hooks.constants.NODE_PERFORMANCE_GC_MINOR
  const TIMES = 10;
  await new Promise<void>((resolve) => {
    let minors = 0;
    const observer = new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as GcEntry[]) if (entry.detail?.kind === MINOR) minors++; // Node's, for 'gc'
      if (minors < TIMES) return;
      observer.disconnect();
      resolve();
    });
    observer.observe({ entryTypes: ['gc'] });
    void inSlices(collections(TIMES), { pause: async () => {} });
  });
});
