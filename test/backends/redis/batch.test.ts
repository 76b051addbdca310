import { operationOf, type RequestOperation } from '../../../src/backends/backend.ts';
import { createCounterKeys } from '../../../src/backends/key.ts';
import { decodeBatch, encodeBatch } from '../../../src/backends/redis/batch.ts';
import { calendarWindowOf, fixedWindowOf } from '../../helpers/limits.ts';

const counterKeys = createCounterKeys('');
const hit = (counter: string, hits: number, requestsPerUnit: number): RequestOperation => {
  const limit = fixedWindowOf(requestsPerUnit, 60_000);
  return operationOf({ key: counterKeys(limit, counter, []) }, limit, hits, true);
};

const pack = (numbers: readonly number[]): Buffer => Buffer.from(Float64Array.from(numbers).buffer); // little-endian, as every machine that runs Node
const unpack = (packed: Buffer): number[] =>
  Array.from({ length: packed.length / 8 }, (_, at) => packed.readDoubleLE(at * 8));

describe('a batch', () => {
  const [first, second] = [hit('a', 1, 10), hit('b', -2, 4_294_967_295)];
  const hits = [first, second, { ...first, kind: 'peek' as const, hits: 0 }];

  test('is packed as dispatcher.lua reads it, a key that appears twice sent once', () => {
    const { keys, packed } = encodeBatch([{ operations: hits, spend: 'each' }], 0);
    expect(keys).toEqual([hits[0]?.key, hits[1]?.key]);
    expect(unpack(packed)).toEqual([
      2, // limits
      ...[1, 3, 10, 60_000, 0], // fixed_window, 3 numbers
      ...[1, 3, 4_294_967_295, 60_000, 0],
      ...[0, 3], // each for itself, 3 hits
      ...[1, 1, 1, 1], // key 1, limit 1, 1 hit, blocks
      ...[2, 2, -2, 1],
      ...[1, 1, 0, 1],
    ]);
  });

  test.each([
    { spend: 'each', packed: 0 },
    { spend: 'all_or_nothing', packed: 1 },
    { spend: 'spare_others', packed: 2 },
  ] as const)('says $spend as $packed, and of each hit whether it blocks', ({ spend, packed: number }) => {
    const mixed = hits.map((one, at) => ({ ...one, blocks: at !== 1 }));
    const numbers = unpack(encodeBatch([{ operations: mixed, spend }], 0).packed);
    expect(numbers.slice(-14, -12)).toEqual([number, 3]);
    expect([numbers.at(-9), numbers.at(-5), numbers.at(-1)]).toEqual([1, 0, 1]);
  });

  test("sends a calendar's boundaries around the caller's clock", () => {
    const limit = calendarWindowOf(10, 'DAY', 'Europe/Berlin');
    const one = operationOf({ key: counterKeys(limit, 'a', []) }, limit, 1, true);
    const { packed } = encodeBatch([{ operations: [one], spend: 'each' }], Date.UTC(2026, 2, 29, 12));
    const days = [
      Date.UTC(2026, 2, 27, 23),
      Date.UTC(2026, 2, 28, 23),
      Date.UTC(2026, 2, 29, 22),
      Date.UTC(2026, 2, 30, 22),
    ];
    expect(unpack(packed)).toEqual([1, 1, 7, 10, 86_400_000, 2, ...days, 0, 1, 1, 1, 1, 1]);
  });

  const reply = pack([
    600_001, // the clock
    ...[3, 2, 600_000, 7], // accepted and charged, 2 numbers of state: the window's start, the count
    ...[3, 2, 600_000, 0],
    ...[2, 2, 660_000, 11],
  ]);

  test('is answered in the order of its hits, by the clock in the reply', () => {
    const atOnce = { delayMs: 0, soft: false };
    expect(decodeBatch(reply, encodeBatch([{ operations: hits, spend: 'each' }], 0))).toEqual([
      [
        { code: 'OK', hitsBefore: 6, limitRemaining: 3, durationUntilResetMs: 59_999, retryAfterMs: 0, ...atOnce },
        expect.objectContaining({ code: 'OK', limitRemaining: 4_294_967_295, durationUntilResetMs: 59_999 }),
        {
          code: 'OVER_LIMIT',
          hitsBefore: 11,
          limitRemaining: 0,
          durationUntilResetMs: 119_999,
          retryAfterMs: 119_999,
          ...atOnce,
        },
      ],
    ]);
  });

  test.each([0, 8, reply.length - 8, reply.length - 1])('refuses a reply that ends after %d bytes', (length) => {
    expect(() => decodeBatch(reply.subarray(0, length), encodeBatch([{ operations: hits, spend: 'each' }], 0))).toThrow(
      expect.objectContaining({ name: 'RangeError' }), // of Node's own realm, which is not that of jest's tests
    );
  });
});

describe('requests that spend the same hits of the same counter', () => {
  const request = (...operations: readonly RequestOperation[]) => ({ operations, spend: 'each' as const });
  const [one, other] = [hit('a', 2, 10), hit('b', 1, 10)];
  const lengths = (...requests: readonly ReturnType<typeof request>[]) =>
    encodeBatch(requests, 0).groups.map(({ places }) => places);

  test('are packed as one operation with a count', () => {
    const { packed } = encodeBatch([request(one), request(one), request(one)], 0);
    expect(unpack(packed)).toEqual([1, ...[1, 3, 10, 60_000, 0], ...[3, 3], ...[1, 1, 2, 1]]);
  });

  test('go together though others come in between, but not past one that touches their counter', () => {
    expect(lengths(request(one), request(other), request(one), request(other))).toEqual([
      [0, 2],
      [1, 3],
    ]);
    expect(lengths(request(one), request(one, other), request(one), request(one))).toEqual([[0], [1], [2, 3]]);
    expect(lengths(request(one), request({ ...one, kind: 'give_back' }), request(one))).toEqual([[0], [1], [2]]);
  });

  test('differ by hits, by limit, by what they spend as a set, and by receipts', () => {
    const spends = { operations: [one], spend: 'all_or_nothing' as const };
    const calendar = calendarWindowOf(10, 'DAY', 'UTC');
    const onCalendar = request(operationOf({ key: counterKeys(calendar, 'c', []) }, calendar, 1, true));
    expect(lengths(request(one), request({ ...one, hits: 3 }))).toEqual([[0], [1]]);
    expect(lengths(request(one), request({ ...one, limit: fixedWindowOf(9, 60_000) }))).toEqual([[0], [1]]);
    expect(encodeBatch([spends, spends], 0).groups).toHaveLength(2);
    expect(encodeBatch([request(one), { ...request(one), receipts: true }], 0).groups).toHaveLength(2);
    expect(lengths(onCalendar, onCalendar)).toEqual([[0], [1]]);
  });
});
