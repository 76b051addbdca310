import { algorithmFor, type Limit } from '../../../src/engine/holds/limits.ts';
import { fixedWindowOf, slidingWindowBucketsOf, slidingWindowCounterOf } from '../../helpers/limits.ts';

const MINUTE_MS = 60_000;
const START_MS = 1_700_000_040_000; // the start of a minute

/** The hits on a counter after charges and a refund. */
function countedAfter(
  limit: Limit,
  charges: readonly [atMs: number, hits: number][],
  nowMs: number,
  refund: [number, number],
) {
  const { step, refund: refundFrom, describe: decide } = algorithmFor(limit);
  let state: readonly number[] | undefined;
  for (const [atMs, hits] of charges) state = step(limit, state, atMs, hits, true).state;
  const [chargedAtMs, hits] = refund;
  const left = refundFrom(limit, state, nowMs, hits, chargedAtMs).state;
  const { accepted, state: after, report = after } = step(limit, left, nowMs, 0, true);
  return decide(limit, report, nowMs, { hits: 0, accepted, charged: true }).hitsBefore;
}

test('hits charged in the first millisecond of a window are refunded to it, earlier ones are not', () => {
  const limit = fixedWindowOf(9, MINUTE_MS);
  expect(countedAfter(limit, [[START_MS, 3]], START_MS + 1, [START_MS, 2])).toBe(1);
  expect(countedAfter(limit, [[START_MS, 3]], START_MS + 1, [START_MS - 1, 2])).toBe(3);
});

test('hits charged in the first millisecond of the previous window are refunded to that window', () => {
  const limit = slidingWindowCounterOf(9, MINUTE_MS);
  const charges: [number, number][] = [[START_MS, 4]];
  const nextMs = START_MS + MINUTE_MS;
  expect(countedAfter(limit, charges, nextMs, [START_MS, 3])).toBe(1);
  expect(countedAfter(limit, charges, nextMs, [START_MS - 1, 3])).toBe(4);
});

test('a refund of more hits than a part of the window has leaves 0, and takes none from another part', () => {
  const limit = slidingWindowBucketsOf(9, MINUTE_MS);
  const charges: [number, number][] = [
    [START_MS, 2],
    [START_MS + MINUTE_MS / 2, 3],
  ];
  expect(countedAfter(limit, charges, START_MS + MINUTE_MS / 2, [START_MS, 5])).toBe(3);
});
