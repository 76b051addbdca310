import { parseArgs } from 'node:util';
import type { FixedWindowLimit } from '../../src/engine/algorithms/fixed-window.ts';
import { unitMs } from '../../src/engine/algorithms/limit.ts';
import type { Backend } from '../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import { operationOf } from '../../test/helpers/operations.ts';
import { tableHead, tableRow } from '../tables/table.ts';

/** The number of counters that expire together, and of hits of either kind in each phase. */
const COUNTERS = 1_000_000;
const START_MS = 1_699_999_200_000; // the start of a minute

const limit: FixedWindowLimit = {
  counter: '',
  requestsPerUnit: 100,
  soft: 0,
  windowMs: unitMs.MINUTE,
  algorithm: 'fixed_window',
  alignment: 'epoch',
};
const counterKeys = createCounterKeys('');

export const usage = `Usage: npm run proof -- expiry

Measures the time of one hit while a million counters are live, while they expire, and after they are gone. Takes about a minute.
`;

/** Times one hit while a million counters are live, while they expire, and after they are gone. */
export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  let nowMs = START_MS;
  const store = createMemoryBackend(() => nowMs, { maxCounters: 4 * COUNTERS });
  for (let at = 0; at < COUNTERS; at++) await hitUs(store, at);

  console.log(tableHead(['while they', 'a hit on', 'p50 µs', 'p99 µs', 'p99.9 µs', 'max µs'], 2));
  await report('are live', store, COUNTERS);
  nowMs += limit.windowMs; // expires all counters; each new one then drops two
  await report('expire', store, 2 * COUNTERS);
  await report('are gone', store, 3 * COUNTERS);
}

/** Hits new and known counters in turn; the known ones are those that were new in the previous phase. */
async function report(phase: string, store: Backend, firstNew: number): Promise<void> {
  const onNewUs = new Float64Array(COUNTERS);
  const onKnownUs = new Float64Array(COUNTERS);
  for (let at = 0; at < COUNTERS; at++) {
    onNewUs[at] = await hitUs(store, firstNew + at);
    onKnownUs[at] = await hitUs(store, firstNew - COUNTERS + scattered(at));
  }
  for (const [what, us] of [
    ['a new counter', onNewUs],
    ['a known one', onKnownUs],
  ] as const) {
    us.sort();
    const at = [0.5, 0.99, 0.999, 1].map((share) => us[Math.ceil(share * COUNTERS) - 1]?.toFixed(1) ?? '');
    console.log(tableRow([phase, what, ...at]));
  }
}

/** A permutation of the numbers below `COUNTERS`: the stride shares no factor with it. */
const scattered = (at: number): number => (at * 617_129) % COUNTERS;

/** The time of one hit on the counter with this number. */
async function hitUs(store: Backend, counter: number): Promise<number> {
  const key = counterKeys(limit, 'api', [{ key: 'user', value: String(counter).padStart(13, '0') }]);
  const startedMs = performance.now();
  const [decision] = await store.run([operationOf({ key }, limit, 1, true)], { spend: 'each', timeoutMs: 1 });
  const tookUs = (performance.now() - startedMs) * 1_000;
  if (decision?.code !== 'OK') throw new Error(`expected every hit to pass, got ${JSON.stringify(decision)}`);
  return tookUs;
}
