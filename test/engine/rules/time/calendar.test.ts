import {
  type CalendarUnit,
  calendarUnits,
  createCalendar,
  isTimeZone,
} from '../../../../src/engine/rules/time/calendar.ts';
import fc from '../../../helpers/property.ts';

/** `2024-03-31T22` as whole hours, `2024-03-31T22:30` otherwise: boundaries are never finer. */
const ms = (text: string): number => Date.parse(`${text}${text.length === 13 ? ':00' : ''}:00Z`);

/** The four boundaries around a time, in readable form. */
function around(unit: CalendarUnit, zone: string, moment: string): readonly string[] {
  const boundaries = createCalendar(unit, zone).around(Date.parse(moment));
  return boundaries.map((boundary) => new Date(boundary).toISOString());
}
const iso = (texts: readonly string[]): readonly string[] => texts.map((text) => new Date(ms(text)).toISOString());

test.each<readonly [zone: string, moment: string, boundaries: readonly string[]]>([
  // the skipped hour, and the repeated one
  ['Europe/Berlin', '2024-03-31T00:59Z', ['2024-03-30T23', '2024-03-31T00', '2024-03-31T01', '2024-03-31T02']],
  ['Europe/Berlin', '2024-10-27T00:30Z', ['2024-10-26T23', '2024-10-27T00', '2024-10-27T01', '2024-10-27T02']],
  ['Europe/Berlin', '2024-10-27T01:30Z', ['2024-10-27T00', '2024-10-27T01', '2024-10-27T02', '2024-10-27T03']],
  // changes by half an hour
  [
    'Australia/Lord_Howe',
    '2024-04-06T15:15Z',
    ['2024-04-06T13', '2024-04-06T14', '2024-04-06T15:30', '2024-04-06T16:30'],
  ],
  [
    'Australia/Lord_Howe',
    '2024-10-05T15:45Z',
    ['2024-10-05T14:30', '2024-10-05T15:30', '2024-10-05T16', '2024-10-05T17'],
  ],
  // no changes, but an offset that is no whole hour
  [
    'Asia/Kolkata',
    '2024-01-01T00:00Z',
    ['2023-12-31T22:30', '2023-12-31T23:30', '2024-01-01T00:30', '2024-01-01T01:30'],
  ],
])('%s: the hour of %s', (zone, moment, boundaries) => {
  expect(around('HOUR', zone, moment)).toEqual(iso(boundaries));
});

const DAY_MS = 86_400_000;

/** Identifies the local day, week (from Monday), month or year of a time, by Intl alone. */
function periodIn(unit: Exclude<CalendarUnit, 'HOUR'>, timeZone: string): (ms: number) => string {
  const format = new Intl.DateTimeFormat('en-CA', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' });
  return (ms) => {
    const date = format.format(ms); // 2024-03-31
    if (unit === 'WEEK') return String(Math.floor((Date.parse(date) / DAY_MS + 3) / 7));
    return date.slice(0, { YEAR: 4, MONTH: 7, DAY: 10 }[unit]);
  };
}

describe('for any time', () => {
  const zones = [
    'UTC',
    'Europe/Berlin',
    'America/New_York',
    'America/Sao_Paulo',
    'Australia/Lord_Howe',
    'Asia/Kolkata',
    'Pacific/Apia',
    'Africa/Casablanca',
    'America/Havana', // repeats a midnight
    'Atlantic/Azores',
  ];
  const changes = [
    '2024-03-31T01',
    '2024-10-27T01',
    '2018-11-04T03',
    '2018-02-18T02',
    '2024-04-06T15',
    '2024-10-05T15:30',
  ];
  const moment = fc.oneof(
    fc.integer({ min: 0, max: Date.UTC(2100, 0) }),
    fc
      .tuple(
        fc.constantFrom(...changes, '2011-12-30T10', '2024-03-10T02', '2024-04-14T02', '2024-11-03T05'),
        fc.integer({ min: -90_000_000, max: 90_000_000 }),
      )
      .map(([change, aside]) => ms(change) + aside),
  );
  const limit = fc.record({ unit: fc.constantFrom(...calendarUnits), zone: fc.constantFrom(...zones), nowMs: moment });

  test('the second boundary is the last one at or before the time, and the others are its neighbours', () => {
    fc.assert(
      fc.property(limit, ({ unit, zone, nowMs }) => {
        const fresh = (atMs: number) => createCalendar(unit, zone).around(atMs); // a new calendar has no cached boundaries
        const [before, start, end, after] = fresh(nowMs);
        expect(before).toBeLessThan(start);
        expect(start).toBeLessThanOrEqual(nowMs);
        expect(nowMs).toBeLessThan(end);
        expect(end).toBeLessThan(after);
        expect(fresh(start)).toEqual([before, start, end, after]);
        expect(fresh(end - 1)).toEqual([before, start, end, after]);
        expect(fresh(end).slice(0, 3)).toEqual([start, end, after]);
        expect(fresh(start - 1).slice(1, 4)).toEqual([before, start, end]);
      }),
      { numRuns: 150 },
    );
  });

  test('days, weeks, months and years begin and end with the local dates', () => {
    fc.assert(
      fc.property(limit, ({ unit, zone, nowMs }) => {
        fc.pre(unit !== 'HOUR');
        const period = periodIn(unit, zone);
        const [before, start, end, after] = createCalendar(unit, zone).around(nowMs);
        expect([period(start), period(end - 1)]).toEqual([period(nowMs), period(nowMs)]);
        expect([period(before), period(after - 1)]).toEqual([period(start - 1), period(end)]);
        for (const boundary of [before, start, end, after]) expect(period(boundary)).not.toBe(period(boundary - 1));
      }),
      { numRuns: 200 },
    );
  });

  test('the result does not depend on earlier calls', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...calendarUnits),
        fc.constantFrom(...zones),
        fc.array(moment, { minLength: 2, maxLength: 6 }),
        (unit, zone, moments) => {
          const one = createCalendar(unit, zone);
          for (const nowMs of moments) expect(one.around(nowMs)).toEqual(createCalendar(unit, zone).around(nowMs));
        },
      ),
      { numRuns: 40 },
    );
  });
});

test.each(['Europe/Berlin', 'UTC', 'Asia/Kolkata', 'america/new_york'])('%s is a time zone', (name) => {
  expect(isTimeZone(name)).toBe(true);
});
test.each(['Europe/Bern', 'Berlin', 'local', 'system', 'default', 'UTC+3', '', ' UTC', 'constructor'])(
  '%j is not a time zone',
  (name) => {
    expect(isTimeZone(name)).toBe(false);
  },
);
