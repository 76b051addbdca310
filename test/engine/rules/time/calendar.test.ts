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

type Case = readonly [zone: string, unit: CalendarUnit, moment: string, boundaries: readonly string[]];

test.each<Case>([
  ['UTC', 'HOUR', '2023-11-14T22:13:20Z', ['2023-11-14T21', '2023-11-14T22', '2023-11-14T23', '2023-11-15T00']],
  ['UTC', 'DAY', '2023-11-14T22:13:20Z', ['2023-11-13T00', '2023-11-14T00', '2023-11-15T00', '2023-11-16T00']],
  ['UTC', 'WEEK', '2023-11-14T22:13:20Z', ['2023-11-06T00', '2023-11-13T00', '2023-11-20T00', '2023-11-27T00']],
  ['UTC', 'WEEK', '2023-11-19T23:59:59Z', ['2023-11-06T00', '2023-11-13T00', '2023-11-20T00', '2023-11-27T00']], // a Sunday
  ['UTC', 'MONTH', '2023-11-14T22:13:20Z', ['2023-10-01T00', '2023-11-01T00', '2023-12-01T00', '2024-01-01T00']],
  ['UTC', 'MONTH', '2024-02-29T12:00:00Z', ['2024-01-01T00', '2024-02-01T00', '2024-03-01T00', '2024-04-01T00']],
  ['UTC', 'YEAR', '2023-11-14T22:13:20Z', ['2022-01-01T00', '2023-01-01T00', '2024-01-01T00', '2025-01-01T00']],
  ['UTC', 'DAY', '1970-01-01T00:00:00Z', ['1969-12-31T00', '1970-01-01T00', '1970-01-02T00', '1970-01-03T00']],
])('%s: the %s of %s', (zone, unit, moment, boundaries) => {
  expect(around(unit, zone, moment)).toEqual(iso(boundaries));
});

describe('around changes of the clock', () => {
  test.each<Case>([
    // 23 hours, then 25
    ['Europe/Berlin', 'DAY', '2024-03-31T12:00Z', ['2024-03-29T23', '2024-03-30T23', '2024-03-31T22', '2024-04-01T22']],
    ['Europe/Berlin', 'DAY', '2024-10-27T12:00Z', ['2024-10-25T22', '2024-10-26T22', '2024-10-27T23', '2024-10-28T23']],
    // the skipped hour, and the repeated one
    [
      'Europe/Berlin',
      'HOUR',
      '2024-03-31T00:59Z',
      ['2024-03-30T23', '2024-03-31T00', '2024-03-31T01', '2024-03-31T02'],
    ],
    [
      'Europe/Berlin',
      'HOUR',
      '2024-10-27T00:30Z',
      ['2024-10-26T23', '2024-10-27T00', '2024-10-27T01', '2024-10-27T02'],
    ],
    [
      'Europe/Berlin',
      'HOUR',
      '2024-10-27T01:30Z',
      ['2024-10-27T00', '2024-10-27T01', '2024-10-27T02', '2024-10-27T03'],
    ],
    [
      'Europe/Berlin',
      'WEEK',
      '2024-03-31T12:00Z',
      ['2024-03-17T23', '2024-03-24T23', '2024-03-31T22', '2024-04-07T22'],
    ],
    [
      'Europe/Berlin',
      'MONTH',
      '2024-03-31T12:00Z',
      ['2024-01-31T23', '2024-02-29T23', '2024-03-31T22', '2024-04-30T22'],
    ],
    [
      'Europe/Berlin',
      'YEAR',
      '2024-07-01T12:00Z',
      ['2022-12-31T23', '2023-12-31T23', '2024-12-31T23', '2025-12-31T23'],
    ],
    // changes at midnight, which is skipped, or comes after a repeated hour
    [
      'America/Sao_Paulo',
      'DAY',
      '2018-11-03T12:00Z',
      ['2018-11-02T03', '2018-11-03T03', '2018-11-04T03', '2018-11-05T02'],
    ],
    [
      'America/Sao_Paulo',
      'DAY',
      '2018-11-04T12:00Z',
      ['2018-11-03T03', '2018-11-04T03', '2018-11-05T02', '2018-11-06T02'],
    ],
    [
      'America/Sao_Paulo',
      'DAY',
      '2018-02-17T12:00Z',
      ['2018-02-16T02', '2018-02-17T02', '2018-02-18T03', '2018-02-19T03'],
    ],
    [
      'America/Sao_Paulo',
      'DAY',
      '2018-02-18T02:30Z',
      ['2018-02-16T02', '2018-02-17T02', '2018-02-18T03', '2018-02-19T03'],
    ],
    // changes by half an hour
    [
      'Australia/Lord_Howe',
      'DAY',
      '2024-04-07T00:00Z',
      ['2024-04-05T13', '2024-04-06T13', '2024-04-07T13:30', '2024-04-08T13:30'],
    ],
    [
      'Australia/Lord_Howe',
      'HOUR',
      '2024-04-06T15:15Z',
      ['2024-04-06T13', '2024-04-06T14', '2024-04-06T15:30', '2024-04-06T16:30'],
    ],
    [
      'Australia/Lord_Howe',
      'HOUR',
      '2024-10-05T15:45Z',
      ['2024-10-05T14:30', '2024-10-05T15:30', '2024-10-05T16', '2024-10-05T17'],
    ],
    // skips a whole day: a week of six days
    ['Pacific/Apia', 'DAY', '2011-12-29T12:00Z', ['2011-12-28T10', '2011-12-29T10', '2011-12-30T10', '2011-12-31T10']],
    ['Pacific/Apia', 'WEEK', '2011-12-29T12:00Z', ['2011-12-19T10', '2011-12-26T10', '2012-01-01T10', '2012-01-08T10']],
    // changes for Ramadan
    [
      'Africa/Casablanca',
      'DAY',
      '2024-03-10T12:00Z',
      ['2024-03-08T23', '2024-03-09T23', '2024-03-11T00', '2024-03-12T00'],
    ],
    [
      'Africa/Casablanca',
      'DAY',
      '2024-04-14T12:00Z',
      ['2024-04-13T00', '2024-04-14T00', '2024-04-14T23', '2024-04-15T23'],
    ],
    [
      'Africa/Casablanca',
      'MONTH',
      '2024-04-10T12:00Z',
      ['2024-02-29T23', '2024-04-01T00', '2024-04-30T23', '2024-05-31T23'],
    ],
    // no changes, but an offset that is no whole hour
    [
      'Asia/Kolkata',
      'HOUR',
      '2024-01-01T00:00Z',
      ['2023-12-31T22:30', '2023-12-31T23:30', '2024-01-01T00:30', '2024-01-01T01:30'],
    ],
  ])('%s: the %s of %s', (zone, unit, moment, boundaries) => {
    expect(around(unit, zone, moment)).toEqual(iso(boundaries));
  });

  // The clock goes from 01:00 back to 00:00: the day continues and does not begin again.
  test.each<Case>([
    [
      'America/Havana',
      'DAY',
      '2024-11-03T12:00Z',
      ['2024-11-02T04', '2024-11-03T04', '2024-11-04T05', '2024-11-05T05'],
    ],
    [
      'Atlantic/Azores',
      'DAY',
      '2024-10-27T12:00Z',
      ['2024-10-26T00', '2024-10-27T00', '2024-10-28T01', '2024-10-29T01'],
    ],
  ])('%s: the %s of %s, which has two midnights, begins with the first', (zone, unit, moment, boundaries) => {
    expect(around(unit, zone, moment)).toEqual(iso(boundaries));
  });
});

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
        fc.constantFrom(...changes, '2011-12-30T10', '2024-03-10T02', '2024-04-14T02'),
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
      { numRuns: 400 },
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
      { numRuns: 100 },
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
