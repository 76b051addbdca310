import { setTimeout as sleep } from 'node:timers/promises';
import type { State } from '../../../../../src/engine/algorithms/limit.ts';
import { createCounterKeys } from '../../../../../src/engine/backends/key.ts';
import { BoundedCounters } from '../../../../../src/engine/backends/memory/bounded-counters.ts';
import { heapBytes } from '../../../../helpers/heap.ts';
import { fixedWindowOf } from '../../../../helpers/limits.ts';

/** Counters to create, and the length of the values in their keys. */
interface Case {
  readonly name: string;
  readonly count: number;
  readonly length: number;
  readonly filler?: string;
  readonly state: State;
}

const START_MS = 1_700_000_000_000;
const log = (hits: number): State => Array.from({ length: 2 * hits }, (_, at) => START_MS + at);
const short = [START_MS, 1];

const cases: readonly Case[] = [
  { name: 'short keys', count: 100_000, length: 13, state: short },
  { name: 'keys of 440 characters', count: 40_000, length: 405, state: short },
  { name: 'keys of 440 characters, two bytes each', count: 20_000, length: 405, filler: 'ж', state: short },
  { name: 'logs of 10 hits', count: 40_000, length: 13, state: log(10) },
  { name: 'logs of 200 hits', count: 5_000, length: 13, state: log(200) },
];

const limit = fixedWindowOf(1_000_000);
const keys = createCounterKeys('');

/** Bytes of heap and typed arrays per byte of the counters' own estimate, after each round of new keys. */
function ratiosOf({ count, length, filler = 'x', state }: Case, rounds: number): readonly number[] {
  const before = heapBytes();
  const counters = new BoundedCounters({ maxCounters: count });
  return Array.from({ length: rounds }, (_, round) => {
    for (let at = 0; at < count; at++) {
      const key = keys(limit, 'api', [{ key: 'user', value: String(round * count + at).padStart(length, filler) }]);
      counters.set(key, counters.find(key), { state, ttlMs: 1 }, START_MS);
    }
    return (heapBytes() - before) / counters.bytes;
  });
}

async function measure(): Promise<void> {
  for (const one of cases) ratiosOf({ ...one, count: 1_000 }, 1); // compiles
  heapBytes();
  await sleep(50); // garbage from loading the script can only be collected in a later turn
  console.log(JSON.stringify(Object.fromEntries(cases.map((one) => [one.name, ratiosOf(one, 3)]))));
}
void measure();
