import { createCounterKeys } from '../../../src/stores/key.ts';
import { decodeBatch, encodeBatch } from '../../../src/stores/redis/batch.ts';
import type { Hit } from '../../../src/stores/store.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';

const counterKeys = createCounterKeys('');
const hit = (counter: string, hits: number, requestsPerUnit: number): Hit => {
  const limit = fixedWindowOf(requestsPerUnit, 60_000);
  return { key: counterKeys(limit, counter, []), limit, hits };
};

const pack = (numbers: readonly number[]): Buffer => Buffer.from(Float64Array.from(numbers).buffer); // little-endian, as every machine that runs Node
const unpack = (packed: Buffer): number[] =>
  Array.from({ length: packed.length / 8 }, (_, at) => packed.readDoubleLE(at * 8));

describe('a batch', () => {
  const hits = [hit('a', 1, 10), hit('b', -2, 4_294_967_295), hit('a', 0, 10)];

  test('is packed as dispatcher.lua reads it, a key that appears twice sent once', () => {
    const { keys, packed } = encodeBatch(hits);
    expect(keys).toEqual([hits[0]?.key, hits[1]?.key]);
    expect(unpack(packed)).toEqual([
      ...[1, 1, 1, 2, 10, 60_000], // key 1, fixed_window, 1 hit, 2 numbers of limit
      ...[2, 1, -2, 2, 4_294_967_295, 60_000],
      ...[1, 1, 0, 2, 10, 60_000],
    ]);
  });

  const reply = pack([
    600_001, // the clock
    ...[1, 2, 600_000, 7], // accepted, 2 numbers of state: the window's start, the count
    ...[1, 2, 600_000, 0],
    ...[0, 2, 660_000, 11],
  ]);

  test('is answered in the order of its hits, by the clock in the reply', () => {
    expect(decodeBatch(reply, hits)).toEqual([
      { code: 'OK', hitsBefore: 6, limitRemaining: 3, durationUntilResetMs: 59_999, retryAfterMs: 0 },
      expect.objectContaining({ code: 'OK', limitRemaining: 4_294_967_295, durationUntilResetMs: 59_999 }),
      { code: 'OVER_LIMIT', hitsBefore: 11, limitRemaining: 0, durationUntilResetMs: 119_999, retryAfterMs: 119_999 },
    ]);
  });

  test.each([0, 8, reply.length - 8, reply.length - 1])('refuses a reply that ends after %d bytes', (length) => {
    expect(() => decodeBatch(reply.subarray(0, length), hits)).toThrow(
      expect.objectContaining({ name: 'RangeError' }), // of Node's own realm, which is not that of jest's tests
    );
  });
});
