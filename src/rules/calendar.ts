import { DateTime, type DateTimeUnit, IANAZone } from 'luxon';
import type { Calendar } from '../algorithms/limit.ts';

/** The units that calendar windows may have. Shorter ones begin with the epoch's in every time zone there is. */
export const calendarUnits = {
  HOUR: 'hour',
  DAY: 'day',
  WEEK: 'week',
  MONTH: 'month',
  YEAR: 'year',
} as const satisfies Record<string, DateTimeUnit>;

export type CalendarUnit = keyof typeof calendarUnits;

/** Whether this machine's time zone data has the name: `Europe/Berlin`, `UTC`. */
export const isTimeZone = (name: string): boolean => IANAZone.isValidZone(name);

/**
 * The boundaries of hours, days, weeks (from Monday), months or years in a time zone, through its changes of the clock:
 * a day may have 23 or 25 hours.
 */
export function createCalendar(calendarUnit: CalendarUnit, timeZone: string): Calendar {
  const unit = calendarUnits[calendarUnit];
  const at = (ms: number): DateTime => DateTime.fromMillis(ms, { zone: timeZone });
  const startOf = (moment: DateTime): DateTime => {
    const start = moment.startOf(unit);
    const before = at(start.toMillis() - 1);
    // Where the clock goes back over a midnight, the date begins before it: with the first of two midnights.
    return unit !== 'hour' && before.toFormat(dateOf[unit]) === start.toFormat(dateOf[unit]) ? startOf(before) : start;
  };
  const boundariesAround = (nowMs: number): readonly [number, number, number, number] => {
    const current = startOf(at(nowMs));
    const next = startAfter(current, unit, startOf);
    const previous = startOf(at(current.toMillis() - 1));
    return [previous.toMillis(), current.toMillis(), next.toMillis(), startAfter(next, unit, startOf).toMillis()];
  };
  let known = boundariesAround(0);
  return {
    timeZone,
    around(nowMs) {
      if (nowMs < known[1] || nowMs >= known[2]) known = boundariesAround(nowMs);
      return known;
    },
  };
}

/** What two moments of the same day, week, month or year have in common. */
const dateOf = { day: 'yyyy-MM-dd', week: 'kkkk-WW', month: 'yyyy-MM', year: 'yyyy' } as const;

/** The next boundary. Adding a unit may land beside it where the clock changes. */
function startAfter(boundary: DateTime, unit: DateTimeUnit, startOf: (moment: DateTime) => DateTime): DateTime {
  const next = startOf(boundary.plus({ [unit]: 1 }));
  return next > boundary ? next : startOf(boundary.plus({ [unit]: 2 }));
}
