import type { RequestOperation } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import { type BatchRequest, encodeBatch } from '../../../src/parts/redis/batch.ts';
import { decodeBatch } from '../../../src/parts/redis/batch-reply.ts';
import { calendarWindowOf, fixedWindowOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import { childOf, fairShareOf, spendOf } from '../../helpers/shares.ts';

const counterKeys = createCounterKeys('');
const hit = (counter: string, hits: number, requestsPerUnit: number): RequestOperation => {
  const limit = fixedWindowOf(requestsPerUnit, 60_000);
  return operationOf({ key: counterKeys(limit, counter, []) }, limit, hits, true);
};

const pack = (numbers: readonly number[]): Buffer => Buffer.from(Float64Array.from(numbers).buffer); // little-endian, like every machine that Node supports
const unpack = (packed: Buffer): number[] =>
  Array.from({ length: packed.length / 8 }, (_, at) => packed.readDoubleLE(at * 8));

const request = (...operations: readonly RequestOperation[]) => ({ operations, spend: 'each' as const });

describe('a batch', () => {
  const [first, second] = [hit('a', 1, 10), hit('b', -2, 4_294_967_295)];
  const hits = [first, second, { ...first, kind: 'peek' as const, hits: 0 }];

  const reply = pack([
    600_001, // the clock
    ...[3, 2, 600_000, 7], // accepted and charged, 2 numbers of state: the window's start, the count
    ...[3, 2, 600_000, 0],
    ...[2, 2, 660_000, 11],
  ]);

  test('is answered in the order of its operations, by the clock in the reply', () => {
    const atOnce = { delayMs: 0, soft: false };
    const [spent, givenBack, peeked] = hits as [RequestOperation, RequestOperation, RequestOperation];
    const ofSpent = {
      code: 'OK',
      hitsBefore: 6,
      limitRemaining: 3,
      durationUntilResetMs: 59_999,
      retryAfterMs: 0,
      ...atOnce,
    };
    const ofGivenBack = expect.objectContaining({
      code: 'OK',
      limitRemaining: 4_294_967_295,
      durationUntilResetMs: 59_999,
    });
    const ofPeeked = {
      code: 'OVER_LIMIT',
      hitsBefore: 11,
      limitRemaining: 0,
      durationUntilResetMs: 119_999,
      retryAfterMs: 119_999,
      ...atOnce,
    };
    expect(decodeBatch(reply, encodeBatch([request(...hits)], 0))).toEqual([[ofSpent, ofGivenBack, ofPeeked]]);
    const reordered = encodeBatch([request(givenBack), { ...request(spent, peeked), receipts: true }], 0);
    expect(decodeBatch(reply, reordered)).toEqual([
      [ofGivenBack],
      [
        { ...ofSpent, chargedAtMs: 600_001 },
        { ...ofPeeked, chargedAtMs: 600_001 },
      ],
    ]);
  });

  test.each([0, 8, reply.length - 8, reply.length - 1])('refuses a reply that ends after %d bytes', (length) => {
    expect(() => decodeBatch(reply.subarray(0, length), encodeBatch([request(...hits)], 0))).toThrow(
      expect.objectContaining({ name: 'RangeError' }), // from Node's own realm, which differs from that of jest's tests
    );
  });
});

test('a decision that arrives after the window of a shared counter is still one of that window', () => {
  const shared = { windowStartMs: 60_000, ttlMs: 60_000 };
  const batch = encodeBatch([request({ ...hit('a', 1, 10), shared })], 120_500);
  const [[decision] = []] = decodeBatch(pack([120_500, 3, 1, 4]), batch);
  expect(decision).toMatchObject({ code: 'OK', hitsBefore: 3, limitRemaining: 6, durationUntilResetMs: 1 });
});

describe('independent spends', () => {
  const [one, other] = [hit('a', 2, 10), hit('b', 2, 10)];
  /** The helper creates new limits, but a run needs the same one. */
  const [first, second] = [one, { ...other, limit: one.limit }];
  const runsOf = (...requests: readonly BatchRequest[]) =>
    encodeBatch(requests, 0).runs.map(({ counters }) => counters.map(({ numbers }) => numbers));

  test('form one run, with a count for a counter with several spends', () => {
    const { keys, packed } = encodeBatch([request(first), request(second, first), request(first)], 0);
    expect(keys).toEqual([first.key, second.key]);
    expect(unpack(packed)).toEqual([1, ...[1, 4, 10, 60_000, 0, 0], 1, ...[1, 2, 0, 1, 1], 2, ...[1, 3], 0]);
    expect(runsOf(request(first), request(second, first), request(first))).toEqual([[[0, 2, 3], [1]]]);
  });

  test('form a run for each limit', () => {
    expect(runsOf(request(one, other), request(other), request(one))).toEqual([[[0, 3]], [[1, 2]]]);
  });

  test('are not moved past other operations on their counter', () => {
    const back: RequestOperation = { ...first, kind: 'give_back' };
    const set = { operations: [first, second], spend: 'all_or_nothing' as const };
    expect(runsOf(request(first), request(back), request(first), request(second))).toEqual([[[0], [3]]]);
    expect(runsOf(request(first), set, request(second))).toEqual([[[0]]]);
    expect(runsOf(request(back), request(first))).toEqual([]);
  });

  test('form no run with other hits or another limit of the same counter', () => {
    const lowered = { ...first, limit: fixedWindowOf(9, 60_000) };
    expect(runsOf(request(first), request({ ...first, hits: 3 }), request(first))).toEqual([[[0]]]);
    expect(runsOf(request(first), request(lowered), request(first))).toEqual([[[0]]]);
  });

  test('on a shared limit come with each child and each limit once, up to another operation', () => {
    const leaf = (...children: readonly number[]) => ({ children, path: [childOf(), childOf()], demand: 0 });
    const shared = { ...fairShareOf(10), path: leaf().path };
    const spend = (...children: readonly number[]): RequestOperation => ({
      ...spendOf(first.key, fairShareOf(10), leaf(...children)),
      limit: shared,
    });
    const spends = [spend(7, 8), spend(7, 9), spend(7, 8)];
    const peek: RequestOperation = { ...spend(7, 8), hits: 0, kind: 'peek' };
    const { packed, trees, groups } = encodeBatch([request(...spends), request(peek), request(spend(7, 8))], 0);
    expect([trees.map(({ numbers }) => numbers), groups.map((group) => group.first)]).toEqual([[[0, 1, 2]], [3, 4]]);
    const [limits, , length = 0, ...rest] = unpack(packed);
    const tree = [1, 3, 3, ...[7, 8, 9], ...[1, 1, 0, 1, 2, 0], ...[1, 1, 0, 1, 3, 0], ...[1, 1, 0, 1, 2, 0]];
    expect([limits, rest.slice(length, length + 2 + tree.length)]).toEqual([1, [0, 1, ...tree]]);
  });

  test('join a run only once for calendar windows, since only the script knows the window', () => {
    const calendar = calendarWindowOf(10, 'DAY', 'UTC');
    const onCalendar = operationOf({ key: counterKeys(calendar, 'c', []) }, calendar, 1, true);
    const { runs, groups } = encodeBatch([request(onCalendar), request(onCalendar)], 0);
    expect([
      runs.map(({ counters }) => counters.flatMap(({ numbers }) => numbers)),
      groups.map((group) => group.first),
    ]).toEqual([[[0]], [1]]);
  });
});
