import { algorithmFor } from '../../algorithms/index.ts';
import type { Decision } from '../../algorithms/limit.ts';
import type { CounterKey } from '../key.ts';
import type { Hit } from '../store.ts';
import { algorithmNames } from './script.ts';

const BYTES = 8; // a double

/** Hits as the script takes them: its KEYS and its packed ARGV[1]. The layout stands at the head of dispatcher.lua. */
export interface Batch {
  readonly keys: readonly CounterKey[];
  readonly packed: Buffer;
}

/** Packs hits for one script call; a key that appears twice is sent once, so that its second hit sees its first. */
export function encodeBatch(hits: readonly Hit[]): Batch {
  const places = new Map<CounterKey, number>();
  const numbers: number[] = [];
  for (const { key, limit, hits: count } of hits) {
    const place = places.get(key) ?? places.size + 1;
    places.set(key, place);
    const limitNumbers = algorithmFor(limit).scriptArgs(limit);
    numbers.push(place, algorithmNames.indexOf(limit.algorithm) + 1, count, limitNumbers.length, ...limitNumbers);
  }
  const packed = Buffer.allocUnsafe(numbers.length * BYTES);
  for (const [at, number] of numbers.entries()) packed.writeDoubleLE(number, at * BYTES);
  return { keys: [...places.keys()], packed };
}

/**
 * Reads the script's reply, one decision a hit, in the order in which they were packed.
 *
 * @throws RangeError  when the reply is shorter than the hits ask for: it is not this script's
 */
export function decodeBatch(reply: Buffer, hits: readonly Hit[]): readonly Decision[] {
  let at = 0;
  const next = (): number => {
    const number = reply.readDoubleLE(at);
    at += BYTES;
    return number;
  };
  const nowMs = next();
  return hits.map(({ limit, hits: count }) => {
    const accepted = next() === 1;
    const state = Array.from({ length: next() }, next);
    return algorithmFor(limit).describe(limit, state, nowMs, count, accepted);
  });
}
