import { ownCopy } from '../src/own-copy.ts';

test('a copy has memory of its own: neither that of what was copied, nor a part of a pool', () => {
  const bytes = Buffer.from('xxhelloxx');
  const copy = ownCopy(bytes, 2, 7);
  bytes.fill(0);
  expect(copy.toString()).toBe('hello');
  expect(copy.buffer.byteLength).toBe(5);
  expect(ownCopy(copy)).toEqual(copy);
});
