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
import { listAnchor, type MayBeAnchored, readPhase, sliding, windowSize, windowStart, writeAnchor } from './window.ts';

/** How rules treat a fraction of a hit. */
export const roundings = ['down', 'up'] as const;

export interface SlidingWindowCounterLimit extends AnyLimit, MayBeAnchored {
  readonly algorithm: 'sliding_window_counter';
  /** The treatment of a fraction of a hit in the estimate: `down` admits, `up` refuses. */
  readonly rounding: (typeof roundings)[number];
}

/**
 * Sliding window counter: the sum of this window's hits and of the part of the previous window's hits that the sliding
 * window still covers, assuming that those were evenly distributed. Twin of sliding-window-counter.lua.
 * State: window start (ms since the epoch), count, previous window's count.
 *
 * Refused hits are not counted. If hits were not evenly distributed, the estimate errs: at worst nearly twice the limit
 * passes within one window's length.
 *
 * @param nowMs   may run backwards (clock skew); the later window remains current, at its beginning
 * @param hits    0 peeks: refused if a single hit would be; a negative number gives hits back, this window's first
 * @param charge  false to leave the counter unchanged and only return the outcome
 */
function step(
  limit: SlidingWindowCounterLimit,
  state: State | undefined,
  nowMs: number,
  hits: number,
  charge: Charge,
): Step {
  const capacity = windowSize(limit);
  const [startMs, count, previous] = roll(limit, state, nowMs);
  const used = count + covered(limit, previous, Math.max(nowMs - startMs, 0));
  const accepted = hits < 0 || used + hitsToFit(hits) <= capacity;
  const counts = charge === 'regardless' || (accepted && charge);
  const counted = counts ? Math.min(count + hits, mostHits(limit)) : count;
  const next = [startMs, Math.max(counted, 0), Math.max(previous + Math.min(counted, 0), 0)] as const;
  return { accepted, state: next, ttlMs: endOfEffect(limit, next) - nowMs };
}

function roll(
  limit: SlidingWindowCounterLimit,
  state: State | undefined,
  nowMs: number,
): readonly [number, number, number] {
  const { windowMs, phaseMs } = limit;
  const startMs = windowStart(nowMs, windowMs, phaseMs);
  if (!state) return [startMs, 0, 0];
  const [knownStartMs = 0, count = 0, previous = 0] = state;
  if (knownStartMs >= startMs) return [knownStartMs, count, previous];
  return [startMs, 0, knownStartMs + windowMs === startMs ? count : 0];
}

/** A count stops before its product with the window would be inexact. All limits of the counter are below that. */
const mostHits = ({ windowMs }: SlidingWindowCounterLimit): number => Math.floor(MAX_COUNT / windowMs);

/** The previous window's part in the sliding window, in whole hits. */
function covered({ windowMs, rounding }: SlidingWindowCounterLimit, previous: number, elapsedMs: number): number {
  const weighted = previous * Math.max(windowMs - elapsedMs, 0);
  const rest = weighted % windowMs;
  const whole = (weighted - rest) / windowMs;
  return rounding === 'up' && rest > 0 ? whole + 1 : whole;
}

/** When the state becomes equivalent to a new one. */
function endOfEffect({ windowMs }: SlidingWindowCounterLimit, [startMs = 0, count = 0, previous = 0]: State): number {
  return startMs + (count > 0 ? 2 * windowMs : previous > 0 ? windowMs : 0);
}

/** When no hits are covered any more, so that the whole limit is available. */
function resetAtMs(limit: SlidingWindowCounterLimit, [startMs = 0, count = 0, previous = 0]: State): number {
  if (count > 0) return startMs + limit.windowMs + elapsedUntil(limit, count, 0);
  return startMs + elapsedUntil(limit, previous, 0);
}

/**
 * The first time in a window at which at most `room` of the previous window's hits are covered; at most the window's
 * length.
 */
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
  const [startMs, count, previous] = roll(limit, state, nowMs);
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
  step,
  describe(limit, report, nowMs, outcome) {
    const [startMs = 0, count = 0, previous = 0] = report;
    const used = count + covered(limit, previous, Math.max(nowMs - startMs, 0));
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
  refund(limit, state, nowMs, hits, chargedAtMs) {
    const [startMs, count, previous] = roll(limit, state, nowMs);
    const isCurrent = chargedAtMs >= startMs;
    const isPrevious = !isCurrent && chargedAtMs >= startMs - limit.windowMs;
    const next = [
      startMs,
      isCurrent ? Math.max(count - hits, 0) : count,
      isPrevious ? Math.max(previous - hits, 0) : previous,
    ] as const;
    return { accepted: true, state: next, ttlMs: endOfEffect(limit, next) - nowMs };
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
  state: { length: 3 },
  script: new URL('./sliding-window-counter.lua', import.meta.url),
  scriptArgs(limit) {
    const { windowMs, rounding, phaseMs = 0 } = limit;
    const round = rounding === 'up' ? 1 : 0;
    return phaseMs === 0 ? [windowSize(limit), windowMs, round] : [windowSize(limit), windowMs, round, phaseMs];
  },
};
