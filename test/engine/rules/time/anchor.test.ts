import { DateTime } from 'luxon';
import { describeRule } from '../../../../src/edge/listing/describe.ts';
import type { FixedWindowLimit } from '../../../../src/engine/algorithms/fixed-window.ts';
import { algorithmFor } from '../../../../src/engine/holds/limits.ts';
import { createAnchoredCalendar } from '../../../../src/engine/rules/time/calendar.ts';
import { wallClock } from '../../../../src/engine/rules/time/zone-time.ts';
import fc from '../../../helpers/property.ts';
import { rulesFrom } from '../../../helpers/rules.ts';

const DAY_MS = 86_400_000;
const ms = (text: string): number => DateTime.fromISO(text, { zone: 'utc' }).toMillis();
const iso = (atMs: number): string => new Date(atMs).toISOString().slice(0, 16);

const limitOf = (limit: string) => {
  const [rule] = rulesFrom(`domain: d\ndescriptors: [{ key: a, rate_limit: ${limit} }]`).rules;
  const [one] = rule?.limits ?? [];
  if (!rule || !one) throw new Error('there is no limit');
  return { limit: one.limit, text: describeRule(rule) };
};

/** The window of a fixed window that contains a time. */
function windowOf(limit: string, moment: string): readonly string[] {
  const found = limitOf(limit).limit as FixedWindowLimit;
  const { state, ttlMs } = algorithmFor(found).step(found, undefined, ms(moment), 1, true);
  return [iso(state[0] ?? 0), iso(ms(moment) + ttlMs)];
}

type Anchored = readonly [length: string, anchor: string, zone: string, moment: string, start: string, end: string];

test.each<Anchored>([
  // a day in Berlin has 23, 24 or 25 hours
  ['unit: day', '2026-01-01T00:00', 'Europe/Berlin', '2026-03-29T12:00Z', '2026-03-28T23:00', '2026-03-29T22:00'],
  ['unit: day', '2026-01-01T00:00', 'Europe/Berlin', '2026-10-25T12:00Z', '2026-10-24T22:00', '2026-10-25T23:00'],
  ['unit: day', '2026-01-01T09:00', 'America/New_York', '2026-11-27T13:59Z', '2026-11-26T14:00', '2026-11-27T14:00'],
  // a window that would begin at a skipped time begins right after it
  ['unit: day', '2026-01-01T02:30', 'Europe/Berlin', '2026-03-29T12:00Z', '2026-03-29T01:00', '2026-03-30T00:30'],
  ['unit: day', '2011-01-01T00:00', 'Pacific/Apia', '2011-12-30T09:00Z', '2011-12-29T10:00', '2011-12-30T10:00'],
  // two weeks from a date, before and after it
  ['window: 14d', '2026-11-27T00:00', 'Europe/Berlin', '2026-11-28T00:00Z', '2026-11-26T23:00', '2026-12-10T23:00'],
  ['window: 14d', '2026-11-27T00:00', 'Europe/Berlin', '2026-10-20T00:00Z', '2026-10-15T22:00', '2026-10-29T23:00'],
  // a month from the 31st begins on the last day of shorter ones
  ['unit: month', '2026-01-31T00:00', 'UTC', '2026-03-01T00:00Z', '2026-02-28T00:00', '2026-03-31T00:00'],
  ['unit: year', '2024-02-29T00:00', 'UTC', '2026-03-01T00:00Z', '2026-02-28T00:00', '2027-02-28T00:00'],
  // hours and shorter windows always have the same length
  ['window: 90m', '2026-11-27T00:10', 'UTC', '2026-11-27T03:00Z', '2026-11-27T01:40', '2026-11-27T03:10'],
  ['window: 6h', '2026-03-28T00:00', 'Europe/Berlin', '2026-03-29T12:00Z', '2026-03-29T11:00', '2026-03-29T17:00'],
])('windows of %s from %s in %s: the window at %s', (length, anchor, zone, moment, start, end) => {
  const limit = `{ ${length}, requests_per_unit: 1, alignment: { anchor: ${anchor}, timezone: ${zone} } }`;
  expect(windowOf(limit, moment)).toEqual([start, end]);
});

test('windows with the same boundaries share their counters, others do not', () => {
  const counterOf = (anchor: string, rest = 'window: 1h'): string =>
    limitOf(`{ ${rest}, requests_per_unit: 1, alignment: { anchor: ${anchor} } }`).limit.counter;
  expect(counterOf('2026-11-27T05:00')).toBe('fixed_window.2|3600000');
  expect(counterOf('2026-11-27T05:10')).toBe(counterOf('2020-01-01T00:10'));
  expect(counterOf('2026-11-27T05:10')).not.toBe(counterOf('2026-11-27T05:20'));
  expect(counterOf('2026-11-27T00:00', 'unit: month')).not.toBe(counterOf('2026-11-27T00:00', 'window: 30d'));
});

test.each([
  ['sliding_window_counter', ''],
  ['sliding_window_buckets', ', buckets: 6'],
  ['token_bucket', ', refill: interval'],
])('windows of %s begin with the anchor, and always have the same length', (algorithm, more) => {
  const anchored = `algorithm: ${algorithm}, window: 1h, requests_per_unit: 1${more}, alignment: { anchor: 2026-11-27T00:10, timezone: Europe/Berlin }`;
  const { limit, text } = limitOf(`{ ${anchored} }`);
  expect(text).toContain('alignment: { anchor: 2026-11-27T00:10, timezone: Europe/Berlin }');
  const { step } = algorithmFor(limit);
  const state = step(limit, undefined, ms('2026-11-27T06:20Z'), 1, true).state;
  const starts = { sliding_window_counter: state[0], sliding_window_buckets: state[0], token_bucket: state[1] };
  expect(iso(starts[algorithm as keyof typeof starts] ?? 0)).toBe(
    algorithm === 'sliding_window_buckets' ? '2026-11-27T06:20' : '2026-11-27T06:10',
  );
});

const anyClock = fc.constantFrom('Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Pacific/Apia', 'UTC');

test('boundaries follow one another without gaps, through every change of the clock', () => {
  fc.assert(
    fc.property(
      anyClock,
      fc.constantFrom({ days: 1, months: 0 }, { days: 7, months: 0 }, { days: 3, months: 0 }, { days: 0, months: 1 }),
      fc.integer({ min: 0, max: 4 * 365 * 24 * 60 }),
      fc.integer({ min: 0, max: 4 * 365 * 24 * 60 }),
      (zone, length, anchorMinutes, atMinutes) => {
        const anchorMs = ms('2010-01-01T00:00Z') + anchorMinutes * 60_000;
        const calendar = createAnchoredCalendar(anchorMs, length, wallClock(zone));
        const nowMs = ms('2010-06-01T00:00Z') + atMinutes * 60_000;
        const [before, start, end, after] = calendar.around(nowMs);
        expect(before < start && start <= nowMs && nowMs < end && end < after).toBe(true);
        expect(calendar.around(start)).toEqual([before, start, end, after]);
        expect(calendar.around(end - 1)).toEqual([before, start, end, after]);
        expect(calendar.around(end).slice(0, 3)).toEqual([start, end, after]);
        const timeOfDay = (atMs: number): number => wallClock(zone).at(atMs) % DAY_MS;
        const expected = anchorMs % DAY_MS;
        const isSkipped = wallClock(zone).nextMove(start - 1, start) !== undefined; // it begins when the clock changes
        if (!isSkipped) expect(timeOfDay(start)).toBe(expected);
      },
    ),
    { numRuns: 60 },
  );
});
