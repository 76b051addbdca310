import {
  type Algorithm,
  type AnyLimit,
  type Charge,
  hitsToFit,
  NEVER_MS,
  repeatWait,
  type State,
  type Step,
  singleHitRefusalMs,
  takenBy,
} from './limit.ts';
import { sliding, windowSize } from './window.ts';

export interface SlidingWindowLogLimit extends AnyLimit {
  readonly algorithm: 'sliding_window_log';
  /** Refused hits are logged, so that callers that keep sending requests keep being refused. */
  readonly countDenied: boolean;
}

/** Maximum number of hits in a log, all of which each step reads and writes. */
const MAX_LOG_HITS = 1_000;

/**
 * Sliding window log: logs the time of each hit, and counts hits that are younger than the window. Twin of
 * sliding-window-log.lua. State: pairs of a time (ms since the epoch) and the hits at that time, oldest first.
 * Report: hits in the window before and after the step, when the last of them leaves it, when the requested hits will
 * fit.
 *
 * Exact. Refused hits are only logged if the limit says so. If the log has as many hits as the limit, each of them
 * replaces the oldest one, so a log never holds fewer hits than were accepted. Hits that are charged regardless of the
 * limit displace older ones beyond `MAX_LOG_HITS`.
 *
 * @param nowMs   may run backwards (clock skew); hits then get the time of the last one
 * @param hits    0 peeks: refused if a single hit would be; a negative number gives hits back, the newest first
 * @param charge  false to leave the counter unchanged and only return the outcome
 */
function step(
  limit: SlidingWindowLogLimit,
  state: State | undefined,
  nowMs: number,
  hits: number,
  charge: Charge,
): Step {
  const capacity = windowSize(limit);
  const log = withinWindow(limit, state ?? [], nowMs);
  const before = hitsIn(log);
  const accepted = hits < 0 || before + hitsToFit(hits) <= capacity;
  const counts = charge === 'regardless' || (charge && (accepted || limit.countDenied));
  const most = charge === 'regardless' ? MAX_LOG_HITS : Math.max(before, capacity);
  const counted = counts ? Math.min(hits, charge === 'regardless' ? MAX_LOG_HITS : capacity) : 0;
  if (counted > 0) append(log, nowMs, counted);
  if (charge && hits < 0) takeNewest(log, -hits);
  takeOldest(log, hitsIn(log) - most);
  return finishStep(limit, log, nowMs, before, accepted, hits);
}

function finishStep(
  limit: SlidingWindowLogLimit,
  log: number[],
  nowMs: number,
  before: number,
  accepted: boolean,
  hits: number,
): Step {
  const emptyAtMs = log.length === 0 ? nowMs : (log.at(-2) ?? 0) + limit.windowMs;
  const used = hitsIn(log);
  const report = [before, used, emptyAtMs, fitsAtMs(limit, log, used + hitsToFit(hits) - windowSize(limit))];
  return { accepted, state: log, ttlMs: emptyAtMs - nowMs, report };
}

/** A copy without hits that have left the window. */
function withinWindow({ windowMs }: SlidingWindowLogLimit, log: State, nowMs: number): number[] {
  let first = 0;
  while (first < log.length && (log[first] ?? 0) + windowMs <= nowMs) first += 2;
  return log.slice(first);
}

function append(log: number[], nowMs: number, hits: number): void {
  const last = log.at(-2);
  if (last === undefined || last < nowMs) log.push(nowMs, hits);
  else log[log.length - 1] = (log.at(-1) ?? 0) + hits;
}

function takeNewest(log: number[], hits: number): void {
  for (let left = hits; left > 0 && log.length > 0; ) {
    const newest = log.at(-1) ?? 0;
    if (newest > left) log[log.length - 1] = newest - left;
    else log.length -= 2;
    left -= newest;
  }
}

/** Removes hits of one time; none if that time has left the log. */
function removeHits(log: number[], atMs: number, hits: number): void {
  for (let at = 0; at < log.length; at += 2) {
    if (log[at] !== atMs) continue;
    const left = (log[at + 1] ?? 0) - hits;
    if (left > 0) log[at + 1] = left;
    else log.splice(at, 2);
    return;
  }
}

function takeOldest(log: number[], hits: number): void {
  for (let left = hits; left > 0; ) {
    const oldest = log[1] ?? 0;
    if (oldest > left) log[1] = oldest - left;
    else log.splice(0, 2);
    left -= oldest;
  }
}

function hitsIn(log: State): number {
  let hits = 0;
  for (let at = 1; at < log.length; at += 2) hits += log[at] ?? 0;
  return hits;
}

/** Time at which this many of the oldest hits will have left the window; 0 if none need to, or there are fewer. */
function fitsAtMs({ windowMs }: SlidingWindowLogLimit, log: State, excess: number): number {
  let left = excess;
  for (let at = 0; at < log.length && left > 0; at += 2) {
    left -= log[at + 1] ?? 0;
    if (left <= 0) return (log[at] ?? 0) + windowMs;
  }
  return 0;
}

/** Maximum number of drawn hits. */
const MAX_TICKS = 200;

/** The sliding window log's row in the table of algorithms. */
export const slidingWindowLog: Algorithm<SlidingWindowLogLimit> = {
  ...sliding,
  keys: ['count_denied'],
  parse(numbers, { values, report }) {
    const limit = { ...numbers, algorithm: 'sliding_window_log', countDenied: values.count_denied ?? false } as const;
    const size = windowSize(limit);
    if (size <= MAX_LOG_HITS) return limit;
    return report(
      'requests_per_unit',
      `a sliding_window_log remembers at most ${MAX_LOG_HITS} hits (soft ones included), got ${size}`,
    );
  },
  write: ({ countDenied }) => (countDenied ? ['count_denied: true'] : []),
  list: ({ countDenied }) => ({ count_denied: countDenied }),
  step,
  describe(limit, [hitsBefore = 0, used = 0, emptyAtMs = 0, fitsMs = 0], nowMs, outcome) {
    const { hits, accepted } = outcome;
    const capacity = windowSize(limit);
    return {
      code: accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore,
      limitRemaining: Math.max(limit.requestsPerUnit - used, 0),
      durationUntilResetMs: emptyAtMs - nowMs,
      retryAfterMs: accepted ? 0 : hitsToFit(hits) <= capacity ? fitsMs - nowMs : NEVER_MS,
      repeatAfterMs: repeatWait(outcome, fitsMs - nowMs),
      delayMs: 0,
      soft: accepted && takenBy(outcome) > 0 && used > limit.requestsPerUnit,
    };
  },
  refund(limit, state, nowMs, hits, chargedAtMs) {
    const log = withinWindow(limit, state ?? [], nowMs);
    const before = hitsIn(log);
    removeHits(log, chargedAtMs, hits);
    return finishStep(limit, log, nowMs, before, true, 0);
  },
  // each refusal extends the wait
  refusalHoldsMs: (limit, refusal) => (limit.countDenied ? 0 : singleHitRefusalMs(limit, refusal)),
  draw(limit, state, nowMs) {
    const log = withinWindow(limit, state ?? [], nowMs);
    const ticks = Array.from(
      { length: log.length / 2 },
      (_, at) => [Math.max(nowMs - (log[2 * at] ?? 0), 0), log[2 * at + 1] ?? 0] as const,
    );
    return { kind: 'ticks', windowMs: limit.windowMs, ticks: ticks.slice(-MAX_TICKS) };
  },
  demand: (key) => key.mostWithin(1),
  state: { longest: (limit) => 2 * windowSize(limit), keepsEntries: true },
  script: new URL('./sliding-window-log.lua', import.meta.url),
  scriptArgs: (limit) => [windowSize(limit), limit.windowMs, limit.countDenied ? 1 : 0],
};
