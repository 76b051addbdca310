import { type Anchored, type AnchoredWindows, type Unit, unitMs } from '../../algorithms/limit.ts';
import type { Block } from '../read/block.ts';
import type { Problems } from '../read/problem.ts';
import { calendarLengths, createAnchoredCalendar, isTimeZone } from './calendar.ts';
import { readTime, wallClock } from './zone-time.ts';

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
  const before = problems.all.length;
  const report = (key: 'anchor' | 'timezone', message: string): undefined => problems.error(block.place(key), message);
  const isZone = isTimeZone(timezone);
  if (!isZone)
    report('timezone', `timezone must be a name of the IANA database such as Europe/Berlin, got '${timezone}'`);
  const clock = wallClock(isZone ? timezone : 'UTC');
  const read = readTime(anchor ?? '', clock);
  if ((!read || read.atMs < 0) && !block.invalid.has('anchor'))
    report(
      'anchor',
      `anchor must be a date since 1970 with a time of day such as 2026-11-27T00:00, got '${anchor ?? 'nothing'}'`,
    );
  else if (windowMs > MAX_ANCHORED_WINDOW_MS)
    report('anchor', `windows with an anchor are at most 10 years long, got ${windowMs} ms`);
  if (anchor === undefined || !read || block.invalid.size > 0 || problems.all.length > before) return undefined;
  const phaseMs = (windowMs - (read.atMs % windowMs)) % windowMs;
  const anchored: Anchored = { anchor, timezone, phaseMs };
  const one = calendarLengths[unit];
  if (!one || (timezone === 'UTC' && one.months === 0)) return { anchored }; // its length never varies
  const length = { days: one.days * unitMultiplier, months: one.months * unitMultiplier };
  return {
    anchored,
    byCalendar: () => ({
      calendar: createAnchoredCalendar(read.wallMs, length, clock),
      name: `${read.atMs}/${unitMultiplier}${unit.toLowerCase()}/${timezone}`,
    }),
  };
}
