import { unitMs } from '../../../../src/engine/algorithms/limit.ts';
import type { Backend } from '../../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../../src/engine/backends/memory/backend.ts';
import { fakeClock } from '../../../helpers/clock.ts';
import { fixedWindowOf } from '../../../helpers/limits.ts';
import { operationOf } from '../../../helpers/operations.ts';
import { backendConformance } from '../conformance.ts';

const MAX_COUNTERS = 100;
const LIMIT = 1_000_000;

backendConformance('a memory store', (clock) => createMemoryBackend(clock, { maxCounters: 10_000 }));

const counterKeys = createCounterKeys('');

/** Hits one counter. @returns the hits spent on it before, as far as the store remembers */
async function spend(store: Backend, counter: string, hits: number, windowMs: number = unitMs.HOUR): Promise<number> {
  const limit = fixedWindowOf(LIMIT, windowMs);
  const key = counterKeys(limit, 'domain', [{ key: 'counter', value: counter }]);
  const [decision] = await store.run([operationOf({ key }, limit, hits, true)], { spend: 'each', timeoutMs: 1 });
  if (!decision || decision.code === 'UNAVAILABLE') throw new Error('a memory store is always available');
  return decision.hitsBefore;
}

/** The counters that the store remembers. A peek at a forgotten one may displace another. */
async function rememberedOf(store: Backend, counters: readonly string[]): Promise<string[]> {
  const remembered: string[] = [];
  for (const counter of counters) if ((await spend(store, counter, 0)) > 0) remembered.push(counter);
  return remembered;
}

describe('a full memory store', () => {
  test.each([
    { created: MAX_COUNTERS, mostKept: MAX_COUNTERS, fewestKept: MAX_COUNTERS },
    { created: MAX_COUNTERS + 1, mostKept: MAX_COUNTERS, fewestKept: 1 },
    { created: MAX_COUNTERS * 10, mostKept: MAX_COUNTERS, fewestKept: 1 },
  ])('keeps at most $mostKept of $created counters, including the newest', async (row) => {
    const store = createMemoryBackend(fakeClock(), { maxCounters: MAX_COUNTERS });
    const names = Array.from({ length: row.created }, (_, at) => `new ${at}`);
    for (const name of names) await spend(store, name, 1);
    const kept = await rememberedOf(store, names.toReversed());
    expect(kept[0]).toBe(names.at(-1));
    expect(kept.length).toBeLessThanOrEqual(row.mostKept);
    expect(kept.length).toBeGreaterThanOrEqual(row.fewestKept);
  });

  test('keeps busy counters through a flood of new ones', async () => {
    const store = createMemoryBackend(fakeClock(), { maxCounters: MAX_COUNTERS });
    const busy = Array.from({ length: 10 }, (_, at) => `busy ${at}`);
    let rounds = 0;
    for (let at = 0; at < 10 * MAX_COUNTERS; at++) {
      if (at % (MAX_COUNTERS / 4) === 0) {
        for (const counter of busy) expect(await spend(store, counter, 1)).toBe(rounds);
        rounds++;
      }
      await spend(store, `new ${at}`, 1);
    }
    expect(rounds).toBe(40);
  });

  test('accepts new counters when all others are busy, and keeps no more than before', async () => {
    const store = createMemoryBackend(fakeClock(), { maxCounters: MAX_COUNTERS });
    const names = Array.from({ length: MAX_COUNTERS }, (_, at) => `busy ${at}`);
    for (const name of [...names, ...names]) await spend(store, name, 1);
    await spend(store, 'new', 1);
    expect(await rememberedOf(store, ['new'])).toEqual(['new']);
    expect((await rememberedOf(store, names)).length).toBeLessThan(MAX_COUNTERS);
  });
});

test('a memory store drops expired counters as new ones arrive, even with room left', async () => {
  const clock = fakeClock(1_700_000_000_000);
  const store = createMemoryBackend(clock, { maxCounters: 10_000 });
  const old = Array.from({ length: 50 }, (_, at) => `old ${at}`);
  for (const counter of old) await spend(store, counter, 1, unitMs.SECOND);
  clock.advance(unitMs.SECOND);
  for (let at = 0; at < 50; at++) await spend(store, `new ${at}`, 1);
  clock.advance(-unitMs.SECOND); // back to before they expired: forgotten counters must not return
  for (const counter of old) expect(await spend(store, counter, 0, unitMs.SECOND)).toBe(0);
  expect(await rememberedOf(store, ['new 0'])).toEqual(['new 0']);
});
