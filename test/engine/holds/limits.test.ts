import { rateFor } from '../../../src/engine/algorithms/index.ts';
import {
  algorithmFor,
  algorithmNames,
  describeCounter,
  isRateLimit,
  isSameLimit,
  isShared,
  namedAlgorithm,
  unitOf,
} from '../../../src/engine/holds/limits.ts';
import { describeLimit } from '../../../src/engine/rules/match/describe-limit.ts';
import {
  adaptiveOf,
  allocationOf,
  anyLimit,
  calendarWindowOf,
  fixedWindowOf,
  inFlightOf,
  leakyBucketOf,
  penaltyOf,
  reservationOf,
  siteShareOf,
  slidingWindowBucketsOf,
  slidingWindowCounterOf,
  slidingWindowLogOf,
  tokenBucketOf,
} from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';
import { fairShareOf, sharedSlotsOf } from '../../helpers/shares.ts';

const HOUR_MS = 3_600_000;
const MINUTE = 60_000;

test('limits with equal numbers are the same, and others are not', () => {
  fc.assert(
    fc.property(anyLimit, (limit) => {
      expect(isSameLimit(limit, { ...limit })).toBe(true);
      expect(isSameLimit(limit, { ...limit, requestsPerUnit: limit.requestsPerUnit + 1 })).toBe(false);
      expect(isSameLimit(limit, { ...limit, counter: `${limit.counter}~1` })).toBe(false);
    }),
  );
});

test.each([
  ['windows of the calendar', () => calendarWindowOf(10, 'DAY', 'Europe/Berlin'), calendarWindowOf(10, 'DAY', 'UTC')],
  ['first windows', () => fixedWindowOf(10, HOUR_MS), fixedWindowOf(10, HOUR_MS, { alignment: 'first_hit' })],
  [
    'counters below reservations',
    () => reservationOf(tokenBucketOf(10, HOUR_MS, { burst: 20 })),
    reservationOf(tokenBucketOf(10, HOUR_MS, { burst: 30 })),
  ],
  ['lost sites', () => siteShareOf(90, HOUR_MS, { sites: 3 }), siteShareOf(90, HOUR_MS, { sites: 3, lost: [2] })],
])('%s decide whether two limits are the same', (_, create, other) => {
  expect(isSameLimit(create(), create())).toBe(true);
  expect(isSameLimit(create(), other)).toBe(false);
});

/** A limit of each kind, and what its row answers about it. */
const kinds = [
  [fixedWindowOf(10), 'hits', '10 per minute', 'window', 10, 10],
  [slidingWindowLogOf(10), 'hits', '10 per minute by sliding_window_log', 'ticks', 1, undefined],
  [slidingWindowCounterOf(10), 'hits', '10 per minute by sliding_window_counter', 'parts', 1, undefined],
  [slidingWindowBucketsOf(10), 'hits', '10 per minute by sliding_window_buckets', 'parts', 1, undefined],
  [tokenBucketOf(10, MINUTE, { burst: 20 }), 'hits', '10 per minute by token_bucket', 'level', 20, 20],
  [leakyBucketOf(10), 'hits', '10 per minute by leaky_bucket', 'level', 1, undefined],
  [inFlightOf(10), 'slots', '10 in flight for up to 60 s', 'slots', /^in_flight limits/, undefined],
  [allocationOf(10), 'allocated', '10 until given back', 'level', /^allocation limits/, undefined],
  [reservationOf(fixedWindowOf(10)), 'hits', '10 per minute, reserved', 'window', /^the hits of reserve/, undefined],
  [fairShareOf(10), 'hits', '10 per minute by token_bucket, shared', 'level', /^share divides/, undefined],
  [sharedSlotsOf(10), 'slots', '10 in flight for up to 60 s, shared', 'slots', /^in_flight limits/, undefined],
  [adaptiveOf(10), 'slots', '4 to 10 in flight for up to 60 s, adaptive', 'slots', /^in_flight limits/, undefined],
  [siteShareOf(10), 'hits', '10 per minute', 'window', /^sites share it/, undefined],
  [
    penaltyOf(fixedWindowOf(10), { growth: 2, longestMs: 3_600_000, forgivenMs: 60_000 }),
    'hits',
    '10 per minute, else blocked for 1m to 1h',
    'window',
    /^penalty refuses/,
    undefined,
  ],
] as const;

test('the table of kinds has each of them', () => {
  expect(kinds.map(([{ algorithm }]) => algorithm)).toEqual(algorithmNames);
});

test.each(kinds)('a row answers what its kind is: $algorithm', (limit, unit, words, drawing, burst, movable) => {
  const row = algorithmFor(limit);
  const { algorithm } = limit;
  expect(unitOf(limit)).toBe(unit);
  expect(describeLimit({ limit, label: { name: '', unit: 'MINUTE', unitMultiplier: 1 } })).toBe(words);
  expect(row.draw?.(limit, undefined, 1_000).kind ?? 'window').toBe(drawing);
  expect(row.account?.(limit, undefined, 1_000, {}).used ?? 0).toBe(0);
  expect(isRateLimit(limit) ? rateFor(limit).bucketBurst(limit) : row.notARate).toEqual(
    burst instanceof RegExp ? expect.stringMatching(burst) : burst,
  );
  expect(isRateLimit(limit) ? rateFor(limit).movable?.(limit) : undefined).toBe(movable);
  const isNamed = !['reservation', 'site_share', 'fair_share', 'shared_slots', 'adaptive', 'penalty'].includes(
    algorithm,
  );
  expect(namedAlgorithm(limit) === algorithm).toBe(isNamed);
  expect(row.measures === true).toBe(algorithm === 'adaptive');
  expect(row.reserves === true).toBe(algorithm === 'reservation');
  expect(row.isActiveChild !== undefined).toBe(['shared_slots', 'adaptive', 'fair_share'].includes(algorithm));
  expect(isShared(limit)).toBe(['fair_share', 'shared_slots'].includes(algorithm));
  expect(describeCounter(limit, undefined, 1_000).capacity).toBe(algorithm === 'adaptive' ? 4 : undefined);
});
