import { MAX_COUNT, type State } from '../algorithms/limit.ts';

/** The octets of a number. */
export const DOUBLE_BYTES = 8;

/** The numbers of a state that are checked: another program's value shows at its beginning. */
export const CHECKED_NUMBERS = 16;

/** V8 compiles the methods of a view to single instructions, unlike those of `Buffer`. */
export const dataView = (bytes: Buffer): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Numbers as little-endian doubles: a counter's state, or the numbers of a script's call. */
export function packNumbers(numbers: readonly number[]): Buffer {
  const packed = Buffer.allocUnsafe(numbers.length * DOUBLE_BYTES);
  const view = dataView(packed);
  for (let at = 0; at < numbers.length; at++) view.setFloat64(at * DOUBLE_BYTES, numbers[at] as number, true); // in range
  return packed;
}

/**
 * Reads a state; undefined if a number is no integer below 2^53, so that this service has not written it. Twin of
 * the one in parts/redis/scripts/counters.ts.
 */
export function unpackState(packed: Buffer): State | undefined {
  if (packed.length === 0 || packed.length % DOUBLE_BYTES !== 0) return undefined;
  const view = dataView(packed);
  const state = Array.from({ length: packed.length / DOUBLE_BYTES }, (_, at) =>
    view.getFloat64(at * DOUBLE_BYTES, true),
  );
  return state.slice(0, CHECKED_NUMBERS).every(isPlausible) ? state : undefined;
}

const isPlausible = (number: number): boolean => Number.isInteger(number) && Math.abs(number) <= MAX_COUNT;
