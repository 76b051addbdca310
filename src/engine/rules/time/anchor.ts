import { DateTime } from 'luxon';
import { type Anchored, type AnchoredWindows, type Calendar, type Unit, unitMs } from '../../algorithms/limit.ts';
import type { Problems } from '../read/problem.ts';
import type { Block } from '../read/read.ts';
import { isTimeZone } from './calendar.ts';
import { readTime, type WallClock, wallClock } from './zone-time.ts';

/** Maximum length of a window with an anchor, since no window may be longer than the time since 1970. */
const MAX_ANCHORED_WINDOW_MS = 10 * unitMs.YEAR;

/** A window's length, as written in the rule. */
export interface WindowLength {
  readonly unit: Unit | 'UNKNOWN';
  readonly unitMultiplier: number;
  readonly windowMs: number;
}

/** Reads `alignment: { anchor, timezone }`. Undefined if it is invalid: `problems` has the reason then. */
export function readAnchor(
  block: Block<'anchor'>,
  { unit, unitMultiplier, windowMs }: WindowLength,
  problems: Problems,
): AnchoredWindows | undefined {
  const { anchor, timezone = 'UTC' } = block.values;
  if (block.invalid.size > 0) return undefined; // reported already
  const report = (key: 'anchor' | 'timezone', message: string): undefined => problems.error(block.place(key), message);
  if (!isTimeZone(timezone))
    return report('timezone', `timezone must be a name of the IANA database such as Europe/Berlin, got '${timezone}'`);
  const clock = wallClock(timezone);
  const read = readTime(anchor ?? '', clock);
  if (anchor === undefined || !read || read.atMs < 0)
    return report(
      'anchor',
      `anchor must be a date since 1970 with a time of day such as 2026-11-27T00:00, got '${anchor ?? 'nothing'}'`,
    );
  if (windowMs > MAX_ANCHORED_WINDOW_MS)
    return report('anchor', `windows with an anchor are at most 10 years long, got ${windowMs} ms`);
  const phaseMs = (windowMs - (read.atMs % windowMs)) % windowMs;
  const anchored: Anchored = { anchor, timezone, phaseMs };
  const length = calendarLength(unit, unitMultiplier);
  if (!length || (timezone === 'UTC' && length.months === 0)) return { anchored };
  return {
    anchored,
    byCalendar: () => ({
      calendar: createAnchoredCalendar(read.wallMs, length, clock),
      name: `${read.atMs}/${unitMultiplier}${unit.toLowerCase()}/${timezone}`,
    }),
  };
}

const DAY_MS = 86_400_000;

/** The length of calendar windows: a number of days, or of months. */
interface CalendarLength {
  readonly days: number;
  readonly months: number;
}

/** The calendar length of a unit; undefined if the unit's length never varies. */
function calendarLength(unit: string, multiplier: number): CalendarLength | undefined {
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
