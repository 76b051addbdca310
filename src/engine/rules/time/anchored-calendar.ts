import { DateTime } from 'luxon';
import type { Calendar } from '../../algorithms/limit.ts';
import type { WallClock } from './zone-time.ts';

const DAY_MS = 86_400_000;

/** The length of calendar windows: a number of days, or of months. */
interface CalendarLength {
  readonly days: number;
  readonly months: number;
}

/** The calendar length of a unit; undefined: the unit's length never varies. */
export function calendarLength(unit: string, multiplier: number): CalendarLength | undefined {
  const [days, months] = lengths[unit] ?? [0, 0];
  return days + months === 0 ? undefined : { days: days * multiplier, months: months * multiplier };
}

const lengths: Readonly<Record<string, readonly [days: number, months: number]>> = {
  DAY: [1, 0],
  WEEK: [7, 0],
  MONTH: [0, 1],
  YEAR: [0, 12],
};

/**
 * The boundaries of windows that begin on a date and last whole days or months: each begins at the anchor's local time
 * of day, or at the next one that exists if the clock skips it. A month without the anchor's day begins on its last
 * day.
 *
 * @param anchorMs  the local time of the anchor
 */
export function createAnchoredCalendar(anchorMs: number, length: CalendarLength, clock: WallClock): Calendar {
  const usualMs = (length.days + length.months * 30) * DAY_MS;
  const boundary = (at: number): number => clock.firstAt(readingAt(anchorMs, length, at));
  const boundariesAround = (nowMs: number): readonly [number, number, number, number] => {
    let at = Math.floor((clock.at(nowMs) - anchorMs) / usualMs);
    while (boundary(at) > nowMs) at--;
    while (boundary(at + 1) <= nowMs) at++;
    const [currentMs, nextMs] = [boundary(at), boundary(at + 1)];
    let before = at - 1;
    while (boundary(before) >= currentMs) before--; // a day that a time zone skips has no length
    let after = at + 2;
    while (boundary(after) <= nextMs) after++;
    return [boundary(before), currentMs, nextMs, boundary(after)];
  };
  let known = boundariesAround(0);
  return {
    timeZone: clock.timeZone,
    around(nowMs) {
      if (nowMs < known[1] || nowMs >= known[2]) known = boundariesAround(nowMs);
      return known;
    },
  };
}

/** The local time at which a window begins. `at`: its number, counted from the anchor's window. */
function readingAt(anchorMs: number, { days, months }: CalendarLength, at: number): number {
  if (months === 0) return anchorMs + at * days * DAY_MS;
  return DateTime.fromMillis(anchorMs, { zone: 'utc' })
    .plus({ months: at * months })
    .toMillis();
}
