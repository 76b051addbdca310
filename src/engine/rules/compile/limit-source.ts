import { type AlgorithmValues, type Calendar, type LimitSource, unitMs } from '../../algorithms/limit.ts';
import type { Problems } from '../read/problem.ts';
import type { Block } from '../read/read.ts';
import { readAnchor, type WindowLength } from '../time/anchor.ts';
import { type CalendarUnit, calendarUnits, createCalendar, isTimeZone } from '../time/calendar.ts';
import { durationMs } from '../time/duration.ts';

type LimitBlock = Block<'rate_limit'>;
type Key = keyof LimitBlock['values'];

/** Reports a problem with a key of a limit. */
export type LimitProblem = (key: Key, message: string) => undefined;

/** The longest `max_delay`. */
const MAX_DELAY_MS = unitMs.HOUR;

/** The input of the algorithm's parser. */
export function sourceOf(
  { values: written, place }: LimitBlock,
  window: WindowLength,
  hasId: boolean,
  problems: Problems,
): LimitSource {
  const { alignment, ...others } = written;
  const values: AlgorithmValues & typeof others = typeof alignment === 'string' ? { ...others, alignment } : others;
  const report: LimitProblem = (key, message) => problems.error(place(key), message);
  return {
    values,
    hasId,
    report,
    choice: (key, choices) => choice(values[key]?.toString(), key, choices, report),
    maxDelayMs: () => readMaxDelay(values, report),
    calendar: () => readCalendar(window, values, report),
    anchored: () => (typeof alignment === 'object' ? readAnchor(alignment, window, problems) : undefined),
  };
}

/** The choice that was written, or the first if the key is absent. Undefined: it is none of them. */
export function choice<const C extends string>(
  written: string | undefined,
  key: Key,
  choices: readonly [C, ...C[]],
  report: LimitProblem,
): C | undefined {
  const found = choices.find((one) => one === (written ?? choices[0]));
  return found ?? report(key, `${key} must be ${choices.join(' or ')}, got '${written}'`);
}

function readMaxDelay({ max_delay: written }: LimitBlock['values'], report: LimitProblem): number | undefined {
  if (written === undefined) return 0;
  const ms = durationMs(written);
  if (ms !== undefined && ms <= MAX_DELAY_MS) return ms;
  return report('max_delay', `max_delay must be a time such as 300ms or 2s, up to 1h, got '${written}'`);
}

function readCalendar(
  { unit, unitMultiplier }: WindowLength,
  { timezone: timeZone = 'UTC' }: LimitBlock['values'],
  report: LimitProblem,
): { readonly calendar: Calendar; readonly timeZone: string } | undefined {
  if (!isTimeZone(timeZone))
    return report('timezone', `timezone must be a name of the IANA database such as Europe/Berlin, got '${timeZone}'`);
  if (isCalendarUnit(unit) && unitMultiplier === 1) return { calendar: createCalendar(unit, timeZone), timeZone };
  const units = Object.values(calendarUnits).join(', ');
  return report(
    'alignment',
    `alignment: calendar goes with one unit: ${units}; got ${unitMultiplier} × ${unit.toLowerCase()}`,
  );
}

const isCalendarUnit = (unit: string): unit is CalendarUnit => Object.hasOwn(calendarUnits, unit);
