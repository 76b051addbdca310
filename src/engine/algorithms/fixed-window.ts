import { compiled } from '../lua/compiled.ts';
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
import { stepped } from './stepped.ts';
import { listAnchor, type MayBeAnchored, phaseName, windowed, windowSize, windowStart, writeAnchor } from './window.ts';

/** Where windows begin: on multiples of their length since the epoch, with a counter's first hit, or on a date. */
type Alignment = 'epoch' | 'first_hit' | Calendar;

/** The name of the counters of windows that begin on multiples of their length. */
export const epochCounter = (windowMs: number): string => `fixed_window.2|${windowMs}`;

/** A limit whose windows begin on multiples of their length. */
export const epochWindow = (
  numbers: Pick<FixedWindowLimit, 'requestsPerUnit' | 'windowMs'>,
  counter = epochCounter(numbers.windowMs),
): FixedWindowLimit => ({ ...numbers, algorithm: 'fixed_window', alignment: 'epoch', counter, soft: 0 });

/** As written in rules. */
export const alignments = ['epoch', 'first_hit', 'calendar'] as const;

export interface FixedWindowLimit extends AnyLimit, MayBeAnchored {
  readonly algorithm: 'fixed_window';
  readonly alignment: Alignment;
}

/** The alignments of `WindowNumbers`. */
const FIRST_HIT = 1;
const CALENDAR = 2;

interface WindowNumbers {
  /** Hits that fit, including the soft ones. */
  readonly capacity: number;
  readonly windowMs: number;
  /** 0: windows begin on multiples of their length. */
  readonly alignment: number;
  readonly phaseMs: number;
  /** Of a calendar: four boundaries around the caller's clock (ms since the epoch). */
  readonly boundaries: readonly number[];
}

const NO_BOUNDARIES: readonly number[] = [];

function numbers(limit: FixedWindowLimit, nowMs: number): WindowNumbers {
  const { alignment, windowMs, phaseMs = 0 } = limit;
  const isCalendar = typeof alignment !== 'string';
  return {
    capacity: windowSize(limit),
    windowMs,
    alignment: isCalendar ? CALENDAR : alignment === 'first_hit' ? FIRST_HIT : 0,
    phaseMs,
    boundaries: isCalendar ? alignment.around(nowMs) : NO_BOUNDARIES,
  };
}

/**
 * Fixed window: counts hits from one boundary to the next, then starts again.
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
export function step(
  limit: WindowNumbers,
  state: State | undefined,
  nowMs: number,
  hits: number,
  charge: Charge,
): Step {
  const known = knownStart(state);
  const startsMs = windowStartAt(limit, known, Math.max(nowMs, known));
  const startMs = Math.max(startsMs, known);
  const before = state && known === startMs ? (state[1] ?? 0) : 0;
  const after = Math.min(Math.max(before + hits, 0), MAX_COUNT);
  const accepted = hits < 0 || after <= limit.capacity;
  const count = charge ? after : before;
  return { accepted, state: [startMs, count], ttlMs: count === 0 ? 0 : windowEnd(limit, startsMs) - nowMs };
}

/** Only hits of the current window come back. */
export function refund(
  limit: WindowNumbers,
  state: State | undefined,
  nowMs: number,
  hits: number,
  chargedAtMs: number,
): Step {
  const known = knownStart(state);
  const startMs = Math.max(windowStartAt(limit, known, Math.max(nowMs, known)), known);
  const next: Step = step(limit, state, nowMs, chargedAtMs >= startMs ? -hits : 0, true);
  return { accepted: true, state: next.state, ttlMs: next.ttlMs };
}

/** The start of the window that ends at a time. */
export function startBefore(limit: WindowNumbers, endMs: number): number {
  return limit.alignment === FIRST_HIT ? endMs - limit.windowMs : windowStartAt(limit, 0, endMs - 1);
}

/** 0 for a new counter, to which a count of 0 is equivalent. */
const knownStart = (state: State | undefined): number => (state && (state[1] ?? 0) > 0 ? (state[0] ?? 0) : 0);

/**
 * The start of the window that contains a moment. A window that began with its first hit continues until its end.
 *
 * @param knownStartMs  start of the counter's window; 0 for a new counter
 */
function windowStartAt(limit: WindowNumbers, knownStartMs: number, atMs: number): number {
  if (limit.alignment === CALENDAR) return boundaryBefore(limit, atMs);
  if (limit.alignment === FIRST_HIT)
    return knownStartMs > 0 && atMs < knownStartMs + limit.windowMs ? knownStartMs : atMs;
  return windowStart(atMs, limit.windowMs, limit.phaseMs);
}

const windowEnd = (limit: WindowNumbers, startMs: number): number =>
  limit.alignment === CALENDAR ? boundaryAfter(limit, startMs) : startMs + limit.windowMs;

/** Beyond the boundaries, windows have the length of the nearest one. */
function boundaryBefore(limit: WindowNumbers, atMs: number): number {
  const startMs = limit.boundaries[1] ?? 0;
  if (atMs >= startMs && atMs < (limit.boundaries[2] ?? 0)) return startMs; // most often
  const first = limit.boundaries[0] ?? 0;
  if (atMs < first) {
    const lengthMs = startMs - first;
    return first - Math.ceil((first - atMs) / lengthMs) * lengthMs;
  }
  const last = limit.boundaries[3] ?? 0;
  const lengthMs = last - (limit.boundaries[2] ?? 0);
  if (atMs >= last) return last + Math.floor((atMs - last) / lengthMs) * lengthMs;
  return atMs < startMs ? first : (limit.boundaries[2] ?? 0);
}

/** The end of the window that begins at a boundary. */
function boundaryAfter(limit: WindowNumbers, startMs: number): number {
  if (startMs === limit.boundaries[1]) return limit.boundaries[2] ?? 0; // most often
  const first = limit.boundaries[0] ?? 0;
  if (startMs < first) return startMs + (limit.boundaries[1] ?? 0) - first;
  for (let at = 1; at < 4; at++) if (startMs < (limit.boundaries[at] ?? 0)) return limit.boundaries[at] ?? 0;
  return startMs + (limit.boundaries[3] ?? 0) - (limit.boundaries[2] ?? 0);
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

/** Has the boundaries around the counter's window even if the clock has run back since then. */
const numbersOf = (limit: FixedWindowLimit, state: State | undefined, nowMs: number): WindowNumbers =>
  numbers(limit, Math.max(nowMs, knownStart(state)));

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
  heldAt: (limit) => ({ ...windowed.heldAt(), most: windowSize(limit) }),
  ...stepped({ compiled: compiled.fixed_window, numbers, step, refund }),
  step: (limit, state, nowMs, hits, charge) => step(numbersOf(limit, state, nowMs), state, nowMs, hits, charge),
  refund: (limit, state, nowMs, hits, atMs) => refund(numbersOf(limit, state, nowMs), state, nowMs, hits, atMs),
  describe(limit, [startMs = 0, count = 0], nowMs, outcome) {
    const { hits, accepted, charged } = outcome;
    const atMs = Math.max(nowMs, startMs);
    const own = numbers(limit, atMs);
    const endMs = windowEnd(own, windowStartAt(own, startMs, atMs));
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
  startBefore: (limit, endMs) => startBefore(numbers(limit, endMs - 1), endMs),
  state: { version: 2, length: 2 },
};
