import { DateTime, type DateTimeUnit, IANAZone } from 'luxon';
import type { Calendar } from '../../algorithms/limit.ts';

/** The units that calendar windows may have. Boundaries of shorter units are those of UTC in every time zone. */
export const calendarUnits = {
  HOUR: 'hour',
  DAY: 'day',
  WEEK: 'week',
  MONTH: 'month',
  YEAR: 'year',
} as const satisfies Record<string, DateTimeUnit>;

export type CalendarUnit = keyof typeof calendarUnits;

const timeZones = new Set<string>();

/** Whether this machine's time zone data has the name: `Europe/Berlin`, `UTC`. */
export function isTimeZone(name: string): boolean {
  if (timeZones.has(name)) return true;
  const isValid = IANAZone.isValidZone(name); // takes far longer than compiling a rule without a calendar
  if (isValid) timeZones.add(name);
  return isValid;
}

/**
 * The boundaries of hours, days, weeks (from Monday), months or years in a time zone. Clock changes are taken into
 * account: a day may have 23 or 25 hours.
 */
export function createCalendar(calendarUnit: CalendarUnit, timeZone: string): Calendar {
  const unit = calendarUnits[calendarUnit];
  const at = (ms: number): DateTime => DateTime.fromMillis(ms, { zone: timeZone });
  const findStart = (moment: DateTime): DateTime => {
    const start = moment.startOf(unit);
    const before = at(start.toMillis() - 1);
    // If the clock goes back over midnight, the date begins earlier: at the first of two midnights.
    return unit !== 'hour' && before.toFormat(dateFormats[unit]) === start.toFormat(dateFormats[unit])
      ? findStart(before)
      : start;
  };
  const boundariesAround = (nowMs: number): readonly [number, number, number, number] => {
    const current = findStart(at(nowMs));
    const next = startAfter(current, unit, findStart);
    const previous = findStart(at(current.toMillis() - 1));
    return [previous.toMillis(), current.toMillis(), next.toMillis(), startAfter(next, unit, findStart).toMillis()];
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

/** A format that is equal for two moments of the same day, week, month or year. */
const dateFormats = { day: 'yyyy-MM-dd', week: 'kkkk-WW', month: 'yyyy-MM', year: 'yyyy' } as const;

/** The next boundary. Adding a unit may miss it if the clock changes. */
function startAfter(boundary: DateTime, unit: DateTimeUnit, findStart: (moment: DateTime) => DateTime): DateTime {
  const next = findStart(boundary.plus({ [unit]: 1 }));
  return next > boundary ? next : findStart(boundary.plus({ [unit]: 2 }));
}
