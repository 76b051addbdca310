import { DateTime, IANAZone } from 'luxon';
import type { Calendar } from '../../algorithms/limit.ts';
import { type WallClock, wallClock } from './zone-time.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const FIRST_MONDAY_MS = 4 * DAY_MS;

/** The length of calendar windows, in days or in months. */
interface CalendarLength {
  readonly days: number;
  readonly months: number;
}

/** The lengths of units that vary with the clock. */
export const calendarLengths: Readonly<Record<string, CalendarLength>> = {
  DAY: { days: 1, months: 0 },
  WEEK: { days: 7, months: 0 },
  MONTH: { days: 0, months: 1 },
  YEAR: { days: 0, months: 12 },
};

/** The units that calendar windows may have. Boundaries of shorter units are those of UTC in every time zone. */
export const calendarUnits = ['HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR'] as const;
export type CalendarUnit = (typeof calendarUnits)[number];

const timeZones = new Set<string>();

/** Whether this machine's time zone data has the name: `Europe/Berlin`, `UTC`. */
export function isTimeZone(name: string): boolean {
  if (timeZones.has(name)) return true;
  const isValid = IANAZone.isValidZone(name); // takes far longer than compiling a rule without a calendar
  if (isValid) timeZones.add(name);
  return isValid;
}

/** Boundaries of hours, days, weeks (from Monday), months or years in a zone; a day may have 23 or 25 hours. */
export function createCalendar(unit: CalendarUnit, timeZone: string): Calendar {
  const clock = wallClock(timeZone);
  const length = calendarLengths[unit];
  if (length) return createAnchoredCalendar(unit === 'WEEK' ? FIRST_MONDAY_MS : 0, length, clock);
  const startAfter = (startMs: number): number => {
    const nextMs = startOfHour(startMs + HOUR_MS, clock);
    return nextMs > startMs ? nextMs : startOfHour(startMs + 2 * HOUR_MS, clock); // the clock went back by half an hour
  };
  return cached(clock, (nowMs) => {
    const startMs = startOfHour(nowMs, clock);
    const endMs = startAfter(startMs);
    return [startOfHour(startMs - 1, clock), startMs, endMs, startAfter(endMs)];
  });
}

/** The beginning of the local hour, which the clock may have skipped, or shown half an hour earlier than usual. */
function startOfHour(ms: number, clock: WallClock): number {
  const wallMs = clock.at(ms);
  const hourMs = Math.floor(wallMs / HOUR_MS) * HOUR_MS;
  const startMs = ms - (wallMs - hourMs);
  return clock.at(startMs) === hourMs ? startMs : clock.firstAt(hourMs);
}

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
  return cached(clock, (nowMs) => {
    let at = Math.floor((clock.at(nowMs) - anchorMs) / usualMs);
    while (boundary(at) > nowMs) at--;
    while (boundary(at + 1) <= nowMs) at++;
    const [currentMs, nextMs] = [boundary(at), boundary(at + 1)];
    let before = at - 1;
    while (boundary(before) >= currentMs) before--; // a day that a time zone skips has no length
    let after = at + 2;
    while (boundary(after) <= nextMs) after++;
    return [boundary(before), currentMs, nextMs, boundary(after)];
  });
}

/** The local time at which a window begins. `at`: its number, counted from the anchor's window. */
function readingAt(anchorMs: number, { days, months }: CalendarLength, at: number): number {
  if (months === 0) return anchorMs + at * days * DAY_MS;
  return DateTime.fromMillis(anchorMs, { zone: 'utc' })
    .plus({ months: at * months })
    .toMillis();
}

/** A calendar that computes boundaries again when a time is not between the last ones. */
function cached({ timeZone }: WallClock, boundariesAround: Calendar['around']): Calendar {
  let known = boundariesAround(0);
  return {
    timeZone,
    around(nowMs) {
      if (nowMs < known[1] || nowMs >= known[2]) known = boundariesAround(nowMs);
      return known;
    },
  };
}
