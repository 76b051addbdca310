import type { ActiveTimes } from '../../engine/rules/match/tree.ts';
import type { Block } from '../../engine/rules/read/block.ts';
import type { Problems } from '../../engine/rules/read/problem.ts';
import { isTimeZone } from '../../engine/rules/time/calendar.ts';
import { readTime, type WallClock, wallClock } from '../../engine/rules/time/zone-time.ts';
import { HOURS } from './keys.ts';

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
const dayNames = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'] as const;
/** 1970-01-01 was a Thursday. */
const FIRST_WEEKDAY = 3;

/** A part of a day, in milliseconds since midnight; if it ends no later than it begins, it ends on the next day. */
interface Hours {
  readonly startMs: number;
  readonly endMs: number;
}

/** Times that recur weekly, in local time. */
interface Weekly {
  readonly days: readonly boolean[];
  readonly hours: readonly Hours[];
}

/** Reads an `active` block. Undefined if it is invalid: `problems` has the reason then. */
export function readActive(block: Block<'active'>, problems: Problems): ActiveTimes | undefined {
  const { values, invalid } = block;
  const before = problems.all.length;
  const report = (key: keyof typeof values, message: string): undefined => problems.error(block.place(key), message);
  const { from, until, days, hours, timezone = 'UTC' } = values;
  const isZone = isTimeZone(timezone);
  if (!isZone)
    report('timezone', `timezone must be a name of the IANA database such as Europe/Berlin, got '${timezone}'`);
  if ([from, until, days, hours].every((one) => one === undefined) && invalid.size === 0)
    problems.error(block.place(), 'active requires from, until, days or hours');
  const clock = wallClock(isZone ? timezone : 'UTC');
  const readMoment = (key: 'from' | 'until', written: string | undefined, absent: number): number => {
    if (written === undefined) return absent;
    const read = readTime(written, clock);
    if (!read)
      report(
        key,
        `${key} must be a date with a time of day such as 2026-11-27T00:00 or …T00:00+01:00, got '${written}'`,
      );
    return read?.atMs ?? absent;
  };
  const fromMs = readMoment('from', from, Number.NEGATIVE_INFINITY);
  const untilMs = readMoment('until', until, Number.POSITIVE_INFINITY);
  if (untilMs <= fromMs) report('until', `until must be after from, got ${from} and ${until}`);
  const weekly = { days: readDays(days, report), hours: readHours(hours, report) };
  if (invalid.size > 0 || problems.all.length > before) return undefined;
  const parts = Object.entries({ from, until, days, hours, timezone }).flatMap(([key, value]) =>
    value === undefined
      ? []
      : [`${key}: ${typeof value === 'string' || value.length === 1 ? value : formatList(value)}`],
  );
  return { text: parts.join(', '), ...boundedTimes({ fromMs, untilMs }, recurring(weekly, clock)) };
}

const formatList = (texts: readonly string[]): string => `[${texts.join(', ')}]`;

type Report = (key: 'days' | 'hours', message: string) => undefined;

function readDays(written: readonly string[] | undefined, report: Report): readonly boolean[] {
  const days = dayNames.map(() => written === undefined);
  for (const text of written ?? []) {
    const [first = -1, last = first, ...more] = text.split('-').map(parseDay);
    if (first < 0 || last < 0 || more.length > 0) {
      report('days', `days must be days of the week such as mon, mon-fri or [sat, sun], got '${text}'`);
      continue;
    }
    for (let day = first; ; day = (day + 1) % 7) {
      days[day] = true;
      if (day === last) break;
    }
  }
  return days;
}

function parseDay(written: string): number {
  const name = written.trim().toLowerCase();
  return dayNames.findIndex((day) => day === name || day.slice(0, 3) === name);
}

const hoursPattern = new RegExp(HOURS);

function readHours(written: readonly string[] | undefined, report: Report): readonly Hours[] {
  return (written ?? ['00:00-24:00']).flatMap((text): Hours[] => {
    const [start = '', end = ''] = text.split('-');
    if (!hoursPattern.test(text) || start === end) {
      report('hours', `hours must be times of day such as 09:00-17:00 or 22:00-06:00, up to 24:00, got '${text}'`);
      return [];
    }
    return [{ startMs: ofDay(start), endMs: ofDay(end) }];
  });
}

function ofDay(written: string): number {
  const [hours = 0, minutes = 0] = written.split(':').map(Number);
  return (hours * 60 + minutes) * MINUTE_MS;
}

/** Whether a local time is within the hours. Hours across midnight belong to the day on which they begin. */
function isWithin({ days, hours }: Weekly, wallMs: number): boolean {
  const day = Math.floor(wallMs / DAY_MS);
  const ofDayMs = wallMs - day * DAY_MS;
  const today = days[toWeekday(day)];
  const yesterday = days[toWeekday(day - 1)];
  return hours.some(({ startMs, endMs }) =>
    startMs < endMs
      ? today && ofDayMs >= startMs && ofDayMs < endMs
      : (today && ofDayMs >= startMs) || (yesterday && ofDayMs < endMs),
  );
}

const toWeekday = (day: number): number => (((day + FIRST_WEEKDAY) % 7) + 7) % 7;

type Times = Omit<ActiveTimes, 'text'>;

/** Weekly times that do not change in two weeks and a day never do: a clock may skip a day, or repeat one. */
const MAX_PERIOD_MS = 15 * DAY_MS;

/** Times that recur every week in local time: hours that the clock skips do not occur, repeated ones occur twice. */
function recurring(weekly: Weekly, clock: WallClock): Times {
  const boundaries = weekly.hours.flatMap(({ startMs, endMs }) => [startMs, endMs]).sort((one, other) => one - other);
  const nextBoundary = (wallMs: number): number => {
    const midnightMs = Math.floor(wallMs / DAY_MS) * DAY_MS;
    return midnightMs + (boundaries.find((ms) => midnightMs + ms > wallMs) ?? DAY_MS);
  };
  const isActive = (nowMs: number): boolean => isWithin(weekly, clock.at(nowMs));
  return {
    isActive,
    changesAtMs(nowMs) {
      const current = isActive(nowMs);
      for (let ms = nowMs; ms < nowMs + MAX_PERIOD_MS; ) {
        const wallMs = clock.at(ms);
        const boundaryMs = ms + nextBoundary(wallMs) - wallMs;
        ms = clock.nextMove(ms, boundaryMs) ?? boundaryMs;
        if (isActive(ms) !== current) return ms;
      }
      return Number.POSITIVE_INFINITY;
    },
  };
}

function boundedTimes(bounds: { readonly fromMs: number; readonly untilMs: number }, inner: Times): Times {
  const { fromMs, untilMs } = bounds;
  return {
    isActive: (nowMs) => nowMs >= fromMs && nowMs < untilMs && inner.isActive(nowMs),
    changesAtMs(nowMs) {
      if (nowMs >= untilMs) return Number.POSITIVE_INFINITY;
      const isBefore = nowMs < fromMs;
      if (isBefore && inner.isActive(fromMs)) return fromMs;
      const atMs = isBefore ? fromMs : nowMs;
      const changeMs = inner.changesAtMs(atMs);
      if (changeMs < untilMs) return changeMs;
      return !isBefore && inner.isActive(nowMs) ? untilMs : Number.POSITIVE_INFINITY;
    },
  };
}
