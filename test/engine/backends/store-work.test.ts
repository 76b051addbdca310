import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import { MAX_CALL_WORK, MAX_REQUEST_WORK, measureWork } from '../../../src/engine/backends/store-work.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import {
  fixedWindowOf,
  inFlightOf,
  limitsOfEach,
  reservationOf,
  slidingWindowBucketsOf,
  slidingWindowLogOf,
} from '../../helpers/limits.ts';
import { heldBy, operationOf } from '../../helpers/operations.ts';

const keyOf = createCounterKeys('');
const WINDOW_MS = 3_600_000;
const DESCRIPTORS = 256;

/** The work of a request with this many spends on one counter, or on one each. @param holder  0: without an id */
const workOn = (limit: Limit, counters: 'one' | 'each', spends = DESCRIPTORS, holder = 7) =>
  measureWork(
    Array.from({ length: spends }, (_, at) =>
      heldBy(operationOf({ key: keyOf(limit, counters === 'one' ? '' : `${at}`, []) }, limit, 1, true), holder),
    ),
  );

const long: readonly (readonly [string, Limit])[] = [
  ['sliding_window_log', slidingWindowLogOf(1_000, WINDOW_MS)],
  ['in_flight with ids', inFlightOf(1_000, WINDOW_MS)],
  ['reserve', reservationOf(fixedWindowOf(1_000, WINDOW_MS))],
  ['reserve beside a log', reservationOf(slidingWindowLogOf(1_000, WINDOW_MS))],
];

test.each(limitsOfEach(5).filter(({ algorithm }) => !/log|buckets/.test(algorithm)))(
  'a spend under %j costs the same in every state',
  (limit) => {
    expect(workOn(limit, 'each')).toBe(DESCRIPTORS);
    expect(workOn(limit, 'one')).toBe(DESCRIPTORS);
  },
);

test.each(long)(
  'a spend under %s costs in proportion to the longest state, which is read once a request',
  (_, limit) => {
    expect(workOn(limit, 'each')).toBeGreaterThan(10 * workOn(limit, 'one'));
    expect(workOn(limit, 'one')).toBeGreaterThan(2 * DESCRIPTORS);
    expect(workOn(limit, 'one')).toBeLessThan(MAX_REQUEST_WORK);
    expect(workOn(limit, 'each')).toBeGreaterThan(MAX_REQUEST_WORK);
    expect(workOn(limit, 'one', 1)).toBeLessThan(MAX_CALL_WORK);
  },
);

test('a request with as many descriptors as it may have passes if its limits have short states', () => {
  for (const limit of [slidingWindowLogOf(100), slidingWindowBucketsOf(10, WINDOW_MS), inFlightOf(1_000)])
    expect(workOn(limit, 'each', DESCRIPTORS, 0)).toBeLessThan(MAX_REQUEST_WORK);
});
