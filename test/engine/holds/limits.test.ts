import { isSameLimit } from '../../../src/engine/holds/limits.ts';
import {
  anyLimit,
  calendarWindowOf,
  fixedWindowOf,
  reservationOf,
  siteShareOf,
  tokenBucketOf,
} from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';

const HOUR_MS = 3_600_000;

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
