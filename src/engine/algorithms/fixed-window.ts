import {
  type Algorithm,
  type AnchoredWindows,
  type AnyLimit,
  type Calendar,
  type Charge,
  type LimitNumbers,
  type LimitSource,
  MAX_COUNT,
  NEVER_MS,
  repeatWait,
  type State,
  type Step,
} from './limit.ts';
import { listAnchor, type MayBeAnchored, phaseName, windowed, windowSize, windowStart, writeAnchor } from './window.ts';

/** Where windows begin: on multiples of their length since the epoch, with a counter's first hit, or on a date. */
type Alignment = 'epoch' | 'first_hit' | Calendar;

/** A limit whose windows begin on multiples of their length. */
export const epochWindow = (
  numbers: Pick<FixedWindowLimit, 'requestsPerUnit' | 'windowMs'>,
  counter = `fixed_window|${numbers.windowMs}`,
): FixedWindowLimit => ({ ...numbers, algorithm: 'fixed_window', alignment: 'epoch', counter, soft: 0 });

/** As written in rules. */
export const alignments = ['epoch', 'first_hit', 'calendar'] as const;

export interface FixedWindowLimit extends AnyLimit, MayBeAnchored {
  readonly algorithm: 'fixed_window';
  readonly alignment: Alignment;
}

/**
 * Fixed window: counts hits from one boundary to the next, then starts again. Twin of fixed-window.lua.
 * State: window start (ms since the epoch), count.
 *
 * Refused hits are counted too, as envoyproxy/ratelimit does: 7 hits at 15 of 20 are refused whole and leave 22. Up to
 * twice the limit passes within one window's length that straddles a boundary.
 *
 * @param nowMs   may run backwards (clock skew); the later window remains current and nothing is forgotten
 * @param hits    0 peeks: refused only if the count is already above the limit; a negative number gives hits back, at
 *                most those spent
 * @param charge  false to leave the counter unchanged and only return the outcome
 */
function step(limit: FixedWindowLimit, state: State | undefined, nowMs: number, hits: number, charge: Charge): Step {
  const [knownStartMs = 0, knownCount = 0] = state ?? [];
  const known = knownCount > 0 ? knownStartMs : 0; // a count of 0 is equivalent to no counter
  const [startsMs, endMs] = windowAt(limit, known, Math.max(nowMs, known));
  const startMs = Math.max(startsMs, known);
  const before = known === startMs ? knownCount : 0;
  const after = Math.min(Math.max(before + hits, 0), MAX_COUNT);
  const accepted = hits < 0 || after <= windowSize(limit);
  const count = charge ? after : before;
  return { accepted, state: [startMs, count], ttlMs: count === 0 ? 0 : endMs - nowMs };
}

/**
 * Start and end of the window that contains a moment. A window that began with its first hit continues until its end.
 *
 * @param knownStartMs  start of the counter's window; 0 for a new counter
 */
function windowAt(
  { alignment, windowMs, phaseMs = 0 }: FixedWindowLimit,
  knownStartMs: number,
  atMs: number,
): readonly [number, number] {
  if (typeof alignment !== 'string') {
    const [, startMs, endMs] = alignment.around(atMs);
    return [startMs, endMs];
  }
  let startMs = windowStart(atMs, windowMs, phaseMs);
  if (alignment === 'first_hit') startMs = knownStartMs > 0 && atMs < knownStartMs + windowMs ? knownStartMs : atMs;
  return [startMs, startMs + windowMs];
}

function parse(numbers: LimitNumbers, source: LimitSource): FixedWindowLimit | undefined {
  const found = source.anchored();
  if (found) return parseAnchored(numbers, source, found);
  const chosen = source.choice('alignment', alignments);
  const createLimit = (alignment: Alignment, suffix: string): FixedWindowLimit => {
    return { ...numbers, algorithm: 'fixed_window', alignment, counter: `${numbers.counter}${suffix}` };
  };
  if (chosen === undefined) return undefined;
  if (chosen === 'calendar') {
    const found = source.calendar();
    return found && createLimit(found.calendar, `@${found.timeZone}`);
  }
  if (source.values.timezone !== undefined)
    return source.report('timezone', `timezone goes with alignment: calendar, not with ${chosen}`);
  return createLimit(chosen, chosen === 'epoch' ? '' : '@first_hit');
}

function parseAnchored(
  numbers: LimitNumbers,
  { values, report }: LimitSource,
  { anchored, byCalendar }: AnchoredWindows,
): FixedWindowLimit | undefined {
  if (values.timezone !== undefined)
    return report('timezone', 'timezone goes into alignment, beside the anchor: { anchor, timezone }');
  const dated = byCalendar?.();
  const counter = `${numbers.counter}${dated ? `@${dated.name}` : phaseName(anchored)}`;
  return { ...numbers, ...anchored, algorithm: 'fixed_window', alignment: dated?.calendar ?? 'epoch', counter };
}

/** The fixed window's row in the table of algorithms. */
export const fixedWindow: Algorithm<FixedWindowLimit> = {
  ...windowed,
  keys: ['alignment', 'timezone'],
  parse,
  write(limit) {
    const { alignment } = limit;
    if (limit.anchor !== undefined) return writeAnchor(limit);
    if (alignment === 'epoch') return [];
    if (typeof alignment === 'string') return [`alignment: ${alignment}`];
    return ['alignment: calendar', `timezone: ${alignment.timeZone}`];
  },
  list(limit) {
    const { alignment } = limit;
    if (limit.anchor !== undefined) return listAnchor(limit);
    return typeof alignment === 'string' ? { alignment } : { alignment: 'calendar', timezone: alignment.timeZone };
  },
  leaseMs: (untilResetMs) => untilResetMs,
  step,
  describe(limit, [startMs = 0, count = 0], nowMs, outcome) {
    const { hits, accepted, charged } = outcome;
    const [, endMs] = windowAt(limit, startMs, Math.max(nowMs, startMs));
    return {
      code: accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore: charged ? Math.max(count - hits, 0) : count,
      limitRemaining: Math.max(limit.requestsPerUnit - count, 0),
      durationUntilResetMs: count === 0 && limit.alignment === 'first_hit' ? 0 : endMs - nowMs, // no window has begun
      retryAfterMs: accepted ? 0 : hits <= windowSize(limit) ? endMs - nowMs : NEVER_MS,
      repeatAfterMs: repeatWait(outcome, count + hits > windowSize(limit) ? endMs - nowMs : 0),
      delayMs: 0,
      soft: accepted && charged && hits > 0 && count > limit.requestsPerUnit,
    };
  },
  refund(limit, state, nowMs, hits, chargedAtMs) {
    const [startMs = 0] = step(limit, state, nowMs, 0, false).state;
    return { ...step(limit, state, nowMs, chargedAtMs >= startMs ? -hits : 0, true), accepted: true };
  },
  refusalHoldsMs(limit, { decision, hits, charged }) {
    if (charged) return decision.durationUntilResetMs; // refused hits are counted, too
    return hits <= 1 && windowSize(limit) > 0 ? decision.durationUntilResetMs : 0;
  },
  waitForMoreMs: () => 0,
  demand: ({ busiest }) => busiest,
  bucketBurst: ({ alignment, requestsPerUnit }) =>
    typeof alignment === 'string' ? requestsPerUnit : 'alignment: calendar has windows of different lengths',
  movable: ({ alignment, anchor, requestsPerUnit }) =>
    alignment === 'epoch' && anchor === undefined ? requestsPerUnit : undefined,
  windows: ({ alignment }) => (typeof alignment === 'string' ? alignment : 'calendar'),
  state: { length: 2 },
  script: new URL('./fixed-window.lua', import.meta.url),
  scriptArgs(limit, nowMs) {
    const { alignment, windowMs, phaseMs = 0 } = limit;
    const capacity = windowSize(limit);
    if (alignment === 'epoch') return phaseMs === 0 ? [capacity, windowMs, 0] : [capacity, windowMs, 0, phaseMs];
    if (alignment === 'first_hit') return [capacity, windowMs, 1];
    return [capacity, windowMs, 2, ...alignment.around(nowMs)];
  },
};
