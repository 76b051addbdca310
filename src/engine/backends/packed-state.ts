import { MAX_COUNT, type State } from '../algorithms/limit.ts';

const BYTES = 8; // a double

/** The numbers of a state that are checked: another program's value shows at its beginning. */
export const CHECKED_NUMBERS = 16;

/** A counter's state as little-endian doubles. */
export function packState(state: State): Buffer {
  const packed = Buffer.allocUnsafe(state.length * BYTES);
  for (const [at, number] of state.entries()) packed.writeDoubleLE(number, at * BYTES);
  return packed;
}

/**
 * Reads a state; undefined if a number is no integer below 2^53, so that this service has not written it. Twin of
 * the one in redis/scripts/counters.ts.
 */
export function unpackState(packed: Buffer): State | undefined {
  if (packed.length === 0 || packed.length % BYTES !== 0) return undefined;
  const state = Array.from({ length: packed.length / BYTES }, (_, at) => packed.readDoubleLE(at * BYTES));
  return state.slice(0, CHECKED_NUMBERS).every(isPlausible) ? state : undefined;
}

const isPlausible = (number: number): boolean => Number.isInteger(number) && Math.abs(number) <= MAX_COUNT;
