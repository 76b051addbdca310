import { compiled } from '../lua/compiled.ts';
import {
  type Algorithm,
  type AnyLimit,
  type Charge,
  checkProduct,
  hitsToFit,
  MAX_COUNT,
  NEVER_MS,
  repeatWait,
  type State,
  type Step,
  takenBy,
} from './limit.ts';
import { showCount } from './money.ts';
import { stepped } from './stepped.ts';
import { listAnchor, type MayBeAnchored, readPhase, sliding, windowSize, windowStart, writeAnchor } from './window.ts';

/** How rules treat a fraction of a hit. */
export const roundings = ['down', 'up'] as const;

export interface SlidingWindowCounterLimit extends AnyLimit, MayBeAnchored {
  readonly algorithm: 'sliding_window_counter';
  /** The treatment of a fraction of a hit in the estimate: `down` admits, `up` refuses. */
  readonly rounding: (typeof roundings)[number];
}

interface CounterNumbers {
  /** Hits that fit, including the soft ones. */
  readonly capacity: number;
  readonly windowMs: number;
  /** Whether a fraction of a hit in the estimate counts as one: 1 or 0. */
  readonly roundsUp: number;
  readonly phaseMs: number;
}

const numbers = (limit: SlidingWindowCounterLimit): CounterNumbers => {
  const { windowMs, rounding, phaseMs = 0 } = limit;
  return { capacity: windowSize(limit), windowMs, roundsUp: rounding === 'up' ? 1 : 0, phaseMs };
};

/**
 * Sliding window counter: the sum of this window's hits and of the part of the previous window's hits that the sliding
 * window still covers, assuming that those were evenly distributed.
 * State: window start (ms since the epoch), count, previous window's count.
 *
 * Refused hits are not counted. If hits were not evenly distributed, the estimate errs: at worst nearly twice the limit
 * passes within one window's length.
 *
 * @param nowMs   may run backwards (clock skew); the later window remains current, at its beginning
 * @param hits    0 peeks: refused if a single hit would be; a negative number gives hits back, this window's first
 * @param charge  false to leave the counter unchanged and only return the outcome
 */
export function step(
  limit: CounterNumbers,
  state: State | undefined,
  nowMs: number,
  hits: number,
  charge: Charge,
): Step {
  const next = roll(limit, state, nowMs);
  const startMs = next[0] ?? 0;
  const count = next[1] ?? 0;
  const previous = next[2] ?? 0;
  const used = count + covered(limit, previous, Math.max(nowMs - startMs, 0));
  const accepted = hits < 0 || used + hitsToFit(hits) <= limit.capacity;
  const counts = charge === 'regardless' || (accepted && charge);
  // a count stops before its product with the window would be inexact; all limits of the counter are below that
  const counted = counts ? Math.min(count + hits, Math.floor(MAX_COUNT / limit.windowMs)) : count;
  const left = Math.max(counted, 0);
  const leftBefore = Math.max(previous + Math.min(counted, 0), 0);
  next[1] = left;
  next[2] = leftBefore;
  return { accepted, state: next, ttlMs: endOfEffect(limit, startMs, left, leftBefore) - nowMs };
}

/** Returns hits to the window in which they were counted. */
export function refund(
  limit: CounterNumbers,
  state: State | undefined,
  nowMs: number,
  hits: number,
  chargedAtMs: number,
): Step {
  const next = roll(limit, state, nowMs);
  const startMs = next[0] ?? 0;
  if (chargedAtMs >= startMs) next[1] = Math.max((next[1] ?? 0) - hits, 0);
  else if (chargedAtMs >= startMs - limit.windowMs) next[2] = Math.max((next[2] ?? 0) - hits, 0);
  return { accepted: true, state: next, ttlMs: endOfEffect(limit, startMs, next[1] ?? 0, next[2] ?? 0) - nowMs };
}

function roll(limit: CounterNumbers, state: State | undefined, nowMs: number): number[] {
  const startMs = windowStart(nowMs, limit.windowMs, limit.phaseMs);
  if (!state) return [startMs, 0, 0];
  const knownStartMs = state[0] ?? 0;
  const count = state[1] ?? 0;
  if (knownStartMs >= startMs) return [knownStartMs, count, state[2] ?? 0];
  return [startMs, 0, knownStartMs + limit.windowMs === startMs ? count : 0];
}

/** The previous window's part in the sliding window, in whole hits. */
function covered(limit: CounterNumbers, previous: number, elapsedMs: number): number {
  const weighted = previous * Math.max(limit.windowMs - elapsedMs, 0);
  const rest = weighted % limit.windowMs; // never negative
  const whole = (weighted - rest) / limit.windowMs;
  return limit.roundsUp === 1 && rest > 0 ? whole + 1 : whole;
}

/** When the state becomes equivalent to a new one. */
const endOfEffect = (limit: CounterNumbers, startMs: number, count: number, previous: number): number =>
  startMs + (count > 0 ? 2 * limit.windowMs : previous > 0 ? limit.windowMs : 0);

/** When no hits are covered any more, so that the whole limit is available. */
function resetAtMs(limit: SlidingWindowCounterLimit, [startMs = 0, count = 0, previous = 0]: State): number {
  if (count > 0) return startMs + limit.windowMs + elapsedUntil(limit, count, 0);
  return startMs + elapsedUntil(limit, previous, 0);
}

/** The first time in a window at which at most `room` of the previous one's hits are covered; at most its length. */
function elapsedUntil({ windowMs, rounding }: SlidingWindowCounterLimit, previous: number, room: number): number {
  if (previous === 0 || room < 0) return room < 0 ? windowMs : 0;
  const mayCover = rounding === 'up' ? room * windowMs : (room + 1) * windowMs - 1; // upper bound, in hit-ms
  return Math.max(windowMs - Math.floor(mayCover / previous), 0);
}

function retryAtMs(
  limit: SlidingWindowCounterLimit,
  [startMs = 0, count = 0, previous = 0]: State,
  hits: number,
): number {
  const room = windowSize(limit) - hits;
  if (room < 0) return NEVER_MS;
  const inThis = elapsedUntil(limit, previous, room - count);
  if (inThis < limit.windowMs) return startMs + inThis;
  return startMs + limit.windowMs + elapsedUntil(limit, count, room);
}

/** The hits of this window and the previous one, and the part of the previous one that still counts. */
function readWindows(limit: SlidingWindowCounterLimit, state: State | undefined, nowMs: number) {
  const [startMs = 0, count = 0, previous = 0] = roll(numbers(limit), state, nowMs);
  const { windowMs } = limit;
  return { count, previous, part: Math.max(windowMs - Math.max(nowMs - startMs, 0), 0) / windowMs };
}

/** The sliding window counter's row in the table of algorithms. */
export const slidingWindowCounter: Algorithm<SlidingWindowCounterLimit> = {
  ...sliding,
  keys: ['rounding', 'alignment'],
  parse(numbers, source) {
    const rounding = source.choice('rounding', roundings);
    const phase = readPhase(numbers, source);
    if (!rounding || !phase) return undefined;
    const limit = { ...numbers, ...phase, algorithm: 'sliding_window_counter', rounding } as const;
    checkProduct(windowSize(limit) * limit.windowMs, 'requests_per_unit', source);
    return limit;
  },
  write: (limit) => [...(limit.rounding === 'up' ? ['rounding: up'] : []), ...writeAnchor(limit)],
  list: (limit) => ({ rounding: limit.rounding, ...listAnchor(limit) }),
  ...stepped({ compiled: compiled.sliding_window_counter, numbers, step, refund }),
  describe(limit, report, nowMs, outcome) {
    const [startMs = 0, count = 0, previous = 0] = report;
    const used = count + covered(numbers(limit), previous, Math.max(nowMs - startMs, 0));
    const taken = takenBy(outcome);
    const required = hitsToFit(outcome.hits);
    const retryMs = used + required > windowSize(limit) ? retryAtMs(limit, report, required) - nowMs : 0;
    return {
      code: outcome.accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore: Math.max(used - taken, 0),
      limitRemaining: Math.max(limit.requestsPerUnit - used, 0),
      durationUntilResetMs: Math.max(resetAtMs(limit, report) - nowMs, 0),
      retryAfterMs: outcome.accepted ? 0 : retryMs,
      repeatAfterMs: repeatWait(outcome, retryMs),
      delayMs: 0,
      soft: outcome.accepted && taken > 0 && used > limit.requestsPerUnit,
    };
  },
  account(limit, state, nowMs) {
    const { count, previous, part } = readWindows(limit, state, nowMs);
    const terms = [`${showCount(limit, previous)} × ${Math.round(part * 100) / 100}`, showCount(limit, count)];
    return { terms, used: previous * part + count };
  },
  draw(limit, state, nowMs) {
    const { count, previous, part } = readWindows(limit, state, nowMs);
    return { kind: 'parts', parts: [Math.round(previous * part * 100) / 100, count] };
  },
  demand: ({ busiestSliding }) => busiestSliding,
  heldAt: () => ({ first: 1, last: 2, unit: 1 }),
  state: { length: 3 },
};
