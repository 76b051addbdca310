import { compiled } from '../lua/compiled.ts';
import { removeAt } from '../lua/lists.ts';
import { type Algorithm, type AnyLimit, type Charge, hitsToFit, type Step, singleHitRefusalMs } from './limit.ts';
import { type Opened, steppedOpen } from './stepped.ts';
import { describeHits, sliding, windowSize } from './window.ts';

export interface SlidingWindowLogLimit extends AnyLimit {
  readonly algorithm: 'sliding_window_log';
  /** Refused hits are logged, so that callers that keep sending requests keep being refused. */
  readonly countDenied: boolean;
}

/** Maximum number of hits in a log, all of which each step reads and writes. */
const MAX_LOG_HITS = 1_000;

interface LogNumbers {
  /** Hits that fit, including the soft ones. */
  readonly capacity: number;
  readonly windowMs: number;
  /** Whether refused hits are logged: 1 or 0. */
  readonly countsRefusals: number;
}

interface Log extends Opened {
  /** Hits in the window. */
  used: number;
}

export function open(limit: LogNumbers, list: number[], nowMs: number): Log {
  const length = list.length;
  let dropped = 0;
  while (dropped < length && (list[dropped] ?? 0) + limit.windowMs <= nowMs) dropped += 2;
  let used = 0;
  for (let at = dropped + 1; at < length; at += 2) used += list[at] ?? 0;
  const log = list as Log; // it becomes one here
  log.dropped = dropped;
  log.used = used;
  return log;
}

/**
 * Sliding window log: logs the time of each hit, and counts hits that are younger than the window.
 * State: pairs of a time (ms since the epoch) and the hits at that time, oldest first.
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
export function step(limit: LogNumbers, log: Log, nowMs: number, hits: number, charge: Charge): Step {
  const capacity = limit.capacity;
  const before = log.used;
  const accepted = hits < 0 || before + hitsToFit(hits) <= capacity;
  const isRegardless = charge === 'regardless';
  const counts = isRegardless || (charge && (accepted || limit.countsRefusals === 1));
  const counted = counts ? Math.min(hits, isRegardless ? MAX_LOG_HITS : capacity) : 0;
  if (counted > 0) append(log, nowMs, counted);
  if (charge && hits < 0) takeNewest(log, -hits);
  takeOldest(log, log.used - (isRegardless ? MAX_LOG_HITS : Math.max(before, capacity)));
  return finishStep(limit, log, nowMs, before, accepted, hits);
}

/** Only hits of exactly that time come back. */
export function refund(limit: LogNumbers, log: Log, nowMs: number, hits: number, chargedAtMs: number): Step {
  const before = log.used;
  const length = log.length;
  for (let at = log.dropped; at < length; at += 2) {
    if (log[at] === chargedAtMs) {
      const taken = Math.min(log[at + 1] ?? 0, hits);
      log.used = before - taken;
      log[at + 1] = (log[at + 1] ?? 0) - taken;
      if (log[at + 1] === 0) removeAt(log, at, 2);
      break;
    }
  }
  return finishStep(limit, log, nowMs, before, true, 0);
}

function finishStep(limit: LogNumbers, log: Log, nowMs: number, before: number, accepted: boolean, hits: number): Step {
  const used = log.used;
  const last = log.length - 2;
  const emptyAtMs = last < log.dropped ? nowMs : (log[last] ?? 0) + limit.windowMs;
  const fitsMs = fitsAtMs(log, used + hitsToFit(hits) - limit.capacity, limit.windowMs);
  return { accepted, state: log, ttlMs: emptyAtMs - nowMs, report: [before, used, emptyAtMs, fitsMs] };
}

function append(log: Log, nowMs: number, hits: number): void {
  const length = log.length;
  if (length <= log.dropped || (log[length - 2] ?? 0) < nowMs) {
    log[length] = nowMs;
    log[length + 1] = hits;
  } else log[length - 1] = (log[length - 1] ?? 0) + hits;
  log.used += hits;
}

function takeNewest(log: Log, hits: number): void {
  let left = hits;
  while (left > 0 && log.length > log.dropped) {
    const newest = log[log.length - 1] ?? 0;
    if (newest > left) log[log.length - 1] = newest - left;
    else {
      log.pop();
      log.pop();
    }
    log.used -= Math.min(newest, left);
    left -= newest;
  }
}

function takeOldest(log: Log, hits: number): void {
  let left = hits;
  if (left > 0) log.used -= left;
  while (left > 0) {
    const oldest = log[log.dropped + 1] ?? 0;
    if (oldest > left) log[log.dropped + 1] = oldest - left;
    else log.dropped += 2;
    left -= oldest;
  }
}

/** Time at which this many of the oldest hits will have left the window; 0 if none need to, or there are fewer. */
function fitsAtMs(log: Log, excess: number, windowMs: number): number {
  const length = log.length;
  let left = excess;
  if (left <= 0 || left > log.used) return 0;
  for (let at = log.dropped; at < length; at += 2) {
    left -= log[at + 1] ?? 0;
    if (left <= 0) return (log[at] ?? 0) + windowMs;
  }
  return 0;
}

/** Maximum number of drawn hits. */
const MAX_TICKS = 200;

const numbers = (limit: SlidingWindowLogLimit): LogNumbers => ({
  capacity: windowSize(limit),
  windowMs: limit.windowMs,
  countsRefusals: limit.countDenied ? 1 : 0,
});

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
  ...steppedOpen({ compiled: compiled.sliding_window_log, numbers, open, step, refund }),
  describe: describeHits,
  // each refusal extends the wait
  refusalHoldsMs: (limit, refusal) => (limit.countDenied ? 0 : singleHitRefusalMs(limit, refusal)),
  draw(limit, state, nowMs) {
    const opened = open(numbers(limit), [...(state ?? [])], nowMs);
    const log = opened.slice(opened.dropped);
    const ticks = Array.from(
      { length: log.length / 2 },
      (_, at) => [Math.max(nowMs - (log[2 * at] ?? 0), 0), log[2 * at + 1] ?? 0] as const,
    );
    return { kind: 'ticks', windowMs: limit.windowMs, ticks: ticks.slice(-MAX_TICKS) };
  },
  demand: (key) => key.mostWithin(1),
  state: { longest: (limit) => 2 * windowSize(limit), keepsEntries: true },
};
