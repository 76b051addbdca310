import { giveBack, JoinedParts, takeBuffer } from '../../../src/h2/bounds/spare-buffers.ts';

const MIB = 1024 * 1024;

beforeEach(() => void jest.useFakeTimers());
afterEach(() => {
  jest.runAllTimers(); // drops spare buffers
  jest.useRealTimers();
});

test('a returned buffer is reused for every length that it fits well', () => {
  const buffer = takeBuffer(15_000);
  expect(buffer).toHaveLength(16_384);
  giveBack(buffer);
  const another = takeBuffer(14_337);
  expect(another).toBe(buffer);
  expect(takeBuffer(14_337)).not.toBe(buffer);
});

test('a buffer is at most a quarter larger than necessary', () => {
  for (let length = 1; length < 5 * MIB; length = Math.ceil(length * 1.01)) {
    expect(takeBuffer(length).length).toBeGreaterThanOrEqual(length);
    expect(takeBuffer(length).length).toBeLessThanOrEqual(length * 1.25);
  }
});

test('no buffer is a part of a pool', () => {
  for (const length of [5, 1_024, 5_000]) expect(takeBuffer(length).buffer.byteLength).toBe(takeBuffer(length).length);
});

test('short buffers are not kept', () => {
  const buffer = takeBuffer(1_023);
  giveBack(buffer);
  expect(takeBuffer(1_023)).not.toBe(buffer);
});

test('the number of kept buffers is bounded', () => {
  const buffers = Array.from({ length: 17 }, () => takeBuffer(MIB));
  for (const buffer of buffers) giveBack(buffer);
  const again = new Set(Array.from({ length: 17 }, () => takeBuffer(MIB)));
  expect(buffers.filter((buffer) => again.has(buffer))).toHaveLength(16);
});

test('spare buffers are dropped after a second', () => {
  const buffer = takeBuffer(15_000);
  giveBack(buffer);
  jest.advanceTimersByTime(1_000);
  expect(takeBuffer(15_000)).not.toBe(buffer);
});

test('input in many parts is copied only as its buffer doubles', () => {
  const allocate = jest.spyOn(Buffer, 'allocUnsafeSlow');
  const parts = new JoinedParts();
  for (let at = 0; at < 1_000; at++) parts.add(Buffer.alloc(100, at), 0, 100, 99_950);
  expect(allocate.mock.calls.length).toBeLessThanOrEqual(8); // 1 KiB to 128 KiB
  allocate.mockRestore();
  expect(parts.length).toBe(99_950);
  for (let at = 0; at < 99_950; at += 100) expect(parts.bytes[at]).toBe((at / 100) % 256);
});
