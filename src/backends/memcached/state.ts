import type { State } from '../../algorithms/limit.ts';

const BYTES = 8; // a double

/** A counter's state in memcached: little-endian doubles. */
export function packState(state: State): Buffer {
  const packed = Buffer.allocUnsafe(state.length * BYTES);
  for (const [at, number] of state.entries()) packed.writeDoubleLE(number, at * BYTES);
  return packed;
}

/** Undefined: not written by this service. */
export function unpackState(packed: Buffer): State | undefined {
  if (packed.length === 0 || packed.length % BYTES !== 0) return undefined;
  return Array.from({ length: packed.length / BYTES }, (_, at) => packed.readDoubleLE(at * BYTES));
}
