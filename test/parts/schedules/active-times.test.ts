import { DateTime } from 'luxon';
import type { ActiveTimes } from '../../../src/engine/rules/match/tree.ts';
import type { Block } from '../../../src/engine/rules/read/block.ts';
import { Problems } from '../../../src/engine/rules/read/problem.ts';
import { wallClock } from '../../../src/engine/rules/time/zone-time.ts';
import { readActive } from '../../../src/parts/schedules/active-times.ts';
import fc from '../../helpers/property.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

type Written = Block<'active'>['values'];

const place = { file: 'rules.yaml', line: 1, path: '' };

function read(values: Written): ActiveTimes {
  const problems = new Problems();
  const read = readActive({ values, invalid: new Set(), place: () => place }, problems);
  if (!read) throw new Error(problems.all.map(({ message }) => message).join('\n'));
  return read;
}

const ms = (text: string): number => DateTime.fromISO(text, { zone: 'utc' }).toMillis();
const iso = (atMs: number): string => (Number.isFinite(atMs) ? new Date(atMs).toISOString() : 'never');

/** The changes after a time, in order: when, and whether it is active afterwards. */
function changes(active: ActiveTimes, from: string, count: number): readonly string[] {
  const found: string[] = [];
  for (let atMs = ms(from); found.length < count; ) {
    atMs = active.changesAtMs(atMs);
    if (atMs === Number.POSITIVE_INFINITY) return [...found, 'never'];
    found.push(`${iso(atMs).slice(0, 16)}Z ${active.isActive(atMs) ? 'on' : 'off'}`);
  }
  return found;
}

const night = { hours: ['22:00-06:00'], timezone: 'Europe/Berlin' } as const;

test.each<readonly [title: string, written: Written, from: string, expected: readonly string[]]>([
  [
    'a night lasts seven hours where summer time begins',
    night,
    '2026-03-28T12:00Z',
    ['2026-03-28T21:00Z on', '2026-03-29T04:00Z off', '2026-03-29T20:00Z on'],
  ],
  [
    'hours that the clock skips begin with the hour after',
    { hours: ['02:30-03:30'], timezone: 'Europe/Berlin' },
    '2026-03-29T00:00Z',
    ['2026-03-29T01:00Z on', '2026-03-29T01:30Z off', '2026-03-30T00:30Z on'],
  ],
  [
    'hours that the clock repeats come twice',
    { hours: ['01:15-01:45'], timezone: 'America/New_York' },
    '2026-11-01T00:00Z',
    ['2026-11-01T05:15Z on', '2026-11-01T05:45Z off', '2026-11-01T06:15Z on', '2026-11-01T06:45Z off'],
  ],
  [
    'two weeks pass between Fridays if the clock skips one',
    { days: ['fri'], timezone: 'Pacific/Apia' },
    '2011-12-24T12:00Z',
    ['2012-01-05T10:00Z on', '2012-01-06T10:00Z off'],
  ],
  [
    'a day that a time zone skips does not come',
    { days: ['fri'], timezone: 'Pacific/Apia' }, // 2011-12-30 did not exist
    '2011-12-28T12:00Z',
    ['2012-01-05T10:00Z on', '2012-01-06T10:00Z off'],
  ],
  [
    'hours across midnight belong to the day on which they begin',
    { days: ['fri'], hours: ['22:00-06:00'] },
    '2026-11-23T00:00Z', // a Monday
    ['2026-11-27T22:00Z on', '2026-11-28T06:00Z off', '2026-12-04T22:00Z on'],
  ],
  [
    'days without hours are whole',
    { days: ['Saturday', 'sun'] },
    '2026-11-23T00:00Z',
    ['2026-11-28T00:00Z on', '2026-11-30T00:00Z off'],
  ],
  [
    'a range of days may go over Sunday',
    { days: ['sat-mon'], hours: ['08:00-24:00'] },
    '2026-11-24T00:00Z',
    [
      '2026-11-28T08:00Z on',
      '2026-11-29T00:00Z off',
      '2026-11-29T08:00Z on',
      '2026-11-30T00:00Z off',
      '2026-11-30T08:00Z on',
      '2026-12-01T00:00Z off',
    ],
  ],
  [
    'a campaign has a beginning and an end, by the clock of its time zone',
    { from: '2026-11-27T00:00', until: '2026-12-01T00:00', timezone: 'America/New_York' },
    '2026-11-01T00:00Z',
    ['2026-11-27T05:00Z on', '2026-12-01T05:00Z off', 'never'],
  ],
  [
    'a beginning alone has no end, and may have an offset',
    { from: '2026-11-27T00:00+01:00', timezone: 'America/New_York' },
    '2026-11-01T00:00Z',
    ['2026-11-26T23:00Z on', 'never'],
  ],
  [
    'a campaign that begins at a time that the clock skips begins when it skips',
    { from: '2026-03-29T02:30', until: '2026-10-25T02:30', timezone: 'Europe/Berlin' },
    '2026-01-01T00:00Z',
    ['2026-03-29T01:00Z on', '2026-10-25T00:30Z off', 'never'], // the first of two such times
  ],
  [
    'nights within a campaign are cut at its ends',
    { from: '2026-11-27T23:00', until: '2026-11-29T01:00', hours: ['22:00-06:00'] },
    '2026-11-01T00:00Z',
    ['2026-11-27T23:00Z on', '2026-11-28T06:00Z off', '2026-11-28T22:00Z on', '2026-11-29T01:00Z off', 'never'],
  ],
  [
    'hours that never come within the bounds never come',
    { from: '2026-11-27T08:00', until: '2026-11-27T20:00', hours: ['22:00-06:00'] },
    '2026-11-01T00:00Z',
    ['never'],
  ],
])('%s', (_, written, from, expected) => {
  const count = expected.filter((one) => one !== 'never').length;
  expect(changes(read(written), from, expected.includes('never') ? count + 1 : count)).toEqual(expected);
});

test.each<readonly [written: Written, message: string]>([
  [{}, 'requires from, until, days or hours'],
  [{ days: ['funday'] }, "must be days of the week such as mon, mon-fri or [sat, sun], got 'funday'"],
  [{ hours: ['22-06'] }, "must be times of day such as 09:00-17:00 or 22:00-06:00, up to 24:00, got '22-06'"],
  [{ hours: ['06:00-06:00'] }, "got '06:00-06:00'"],
  [
    { from: '2026-11-27' },
    "must be a date with a time of day such as 2026-11-27T00:00 or …T00:00+01:00, got '2026-11-27'",
  ],
  [{ from: '2026-02-30T00:00' }, "got '2026-02-30T00:00'"],
  [{ from: '2026-11-27T00:00', until: '2026-11-27T00:00' }, 'must be after from'],
  [{ days: ['mon'], timezone: 'Berlin' }, "must be a name of the IANA database such as Europe/Berlin, got 'Berlin'"],
])('%j is refused: %s', (written, message) => {
  expect(() => read(written)).toThrow(message);
});

const dayNames = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;

/** The wall clock's time, by Intl alone. */
function wallAt(zone: string) {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone,
    hourCycle: 'h23',
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
  });
  return (atMs: number): { readonly day: number; readonly minute: number } => {
    const parts = new Map(format.formatToParts(atMs).map(({ type, value }) => [type, value]));
    return {
      day: (dayNames as readonly string[]).indexOf(parts.get('weekday')?.toLowerCase() ?? ''), // accepts any text
      minute: Number(parts.get('hour')) * 60 + Number(parts.get('minute')),
    };
  };
}

interface Recurring {
  readonly days: readonly number[];
  readonly hours: readonly (readonly [start: number, end: number])[];
}

/** The definition, minute by minute. */
const isOn = (
  { days, hours }: Recurring,
  { day, minute }: { readonly day: number; readonly minute: number },
): boolean =>
  hours.some(([start, end]) =>
    start < end
      ? days.includes(day) && minute >= start && minute < end
      : (days.includes(day) && minute >= start) || (days.includes((day + 6) % 7) && minute < end),
  );

/** Zones with days around which their clocks change. */
const moves: readonly (readonly [zone: string, day: string])[] = [
  ['Europe/Berlin', '2026-03-29'],
  ['Europe/Berlin', '2026-10-25'],
  ['America/New_York', '2026-03-08'],
  ['America/New_York', '2026-11-01'],
  ['Australia/Lord_Howe', '2026-04-05'],
  ['Australia/Lord_Howe', '2026-10-04'],
  ['Pacific/Apia', '2011-12-30'],
  ['America/Sao_Paulo', '2018-11-04'], // skips a midnight
  ['America/Havana', '2026-11-01'], // repeats one
  ['Africa/Casablanca', '2026-02-15'],
  ['Asia/Kolkata', '2026-06-01'],
];

const time = (minute: number): string =>
  `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`;

const anyMinute = fc.oneof(
  fc.integer({ min: 0, max: 95 }).map((quarter) => quarter * 15),
  fc.nat({ max: 1_439 }),
);
const anyRecurring: fc.Arbitrary<Recurring> = fc.record({
  days: fc.subarray([0, 1, 2, 3, 4, 5, 6], { minLength: 1 }),
  hours: fc.array(
    fc.tuple(anyMinute, anyMinute).filter(([start, end]) => start !== end),
    { minLength: 1, maxLength: 3 },
  ),
});

const SCANNED_DAYS = 9;

test('agrees with a scan of every minute by Intl, around changes of the clock', () => {
  fc.assert(
    fc.property(
      anyRecurring,
      fc.constantFrom(...moves),
      fc.integer({ min: -3 * 1_440, max: 1_440 }),
      fc.nat({ max: MINUTE_MS - 1 }),
      (recurring, [timezone, day], beside, restMs) => {
        const active = read({
          days: recurring.days.map((one) => dayNames[one] ?? ''),
          hours: recurring.hours.map(([start, end]) => `${time(start)}-${time(end)}`),
          timezone,
        });
        const wall = wallAt(timezone);
        const startMs = ms(`${day}T00:00Z`) + beside * MINUTE_MS;
        const current = isOn(recurring, wall(startMs));
        expect(active.isActive(startMs + restMs)).toBe(current);
        let changeMs = startMs;
        do changeMs += MINUTE_MS;
        while (changeMs < startMs + SCANNED_DAYS * DAY_MS && isOn(recurring, wall(changeMs)) === current);
        const foundMs = active.changesAtMs(startMs + restMs);
        if (changeMs < startMs + SCANNED_DAYS * DAY_MS) expect(iso(foundMs)).toBe(iso(changeMs));
        else expect(foundMs).toBeGreaterThanOrEqual(changeMs);
      },
    ),
    { numRuns: 30 },
  );
});

test('the first instant at which a clock shows a time agrees with a scan of every minute', () => {
  fc.assert(
    fc.property(fc.constantFrom(...moves), fc.integer({ min: -2 * 1_440, max: 2 * 1_440 }), ([zone, day], beside) => {
      const clock = wallClock(zone);
      const wallMs = ms(`${day}T00:00Z`) + beside * MINUTE_MS;
      let firstMs = wallMs - 16 * 60 * MINUTE_MS;
      while (firstMs + DateTime.fromMillis(firstMs, { zone }).offset * MINUTE_MS < wallMs) firstMs += MINUTE_MS;
      expect(iso(clock.firstAt(wallMs))).toBe(iso(firstMs));
    }),
    { numRuns: 40 },
  );
});
