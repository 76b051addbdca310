import { ownCopy } from '../../../src/h2/bounds/own-copy.ts';

test('a copy has its own memory, not that of the original or a part of a pool', () => {
  const bytes = Buffer.from('xxhelloxx');
  const copy = ownCopy(bytes, 2, 7);
  bytes.fill(0);
  expect(copy.toString()).toBe('hello');
  expect(copy.buffer.byteLength).toBe(5);
  expect(ownCopy(copy)).toEqual(copy);
});
