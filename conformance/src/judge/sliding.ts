import {
  type Call,
  type Clocks,
  earliest,
  enough,
  type Finding,
  hasPassed,
  type Judge,
  latest,
  mayCount,
  sumOf,
  times,
} from './call.ts';
import { isExact, type Limit } from './limits.ts';
import { Sums } from './sums.ts';
import { windowsOf } from './windows.ts';

/** The most hits that passed, for certain, within less than a window. */
export interface Crowd {
  readonly hits: number;
  readonly fromMs: number;
}

/**
 * The most hits that certainly passed within one window, wherever it begins: of the calls that passed, those that had
 * been answered before its end, less those that had begun before its begin. Exact unless a call lasted longer than a
 * window; never too many.
 */
export function largestCrowd(calls: readonly Call[], { windowMs }: Limit, clocks: Clocks): Crowd {
  const passed = calls.filter(hasPassed);
  const ended = new Sums(passed.map((call) => [latest(call, clocks), call.hits]));
  let [begun, largest]: [number, Crowd] = [0, { hits: 0, fromMs: 0 }];
  for (const call of passed) {
    const fromMs = earliest(call, clocks);
    const hits = ended.before(fromMs + windowMs) - begun;
    if (hits > largest.hits) largest = { hits, fromMs };
    begun += call.hits;
  }
  return largest;
}

/** The calls that certainly passed within a window. */
const within = (calls: readonly Call[], fromMs: number, limit: Limit, clocks: Clocks): readonly Call[] =>
  calls.filter(
    (call) => hasPassed(call) && earliest(call, clocks) >= fromMs && latest(call, clocks) < fromMs + limit.windowMs,
  );

/** No window of this length, wherever it begins, holds more hits than the limit; and a refusal needs a full one. */
export const judgeSlidingLog: Judge = (calls, limit, clocks) => {
  const most = limit.limit + limit.slack;
  const crowd = largestCrowd(calls, limit, clocks);
  const findings: Finding[] = [];
  if (crowd.hits > most)
    findings.push({
      why: `within ${times(limit.windowMs)} at most ${most} could pass; ${crowd.hits} did`,
      calls: enough(within(calls, crowd.fromMs, limit, clocks), most),
    });
  const counted = calls.filter((call) => mayCount(call, limit));
  const begun = new Sums(counted.map((call) => [earliest(call, clocks), call.hits]));
  const gone = new Sums(counted.map((call) => [latest(call, clocks) + limit.windowMs, call.hits]));
  const passed = calls.filter(hasPassed);
  const ended = new Sums(passed.map(({ end, hits }) => [end, hits]));
  const leaving = new Sums(passed.map((call) => [earliest(call, clocks) + limit.windowMs, call.hits]));
  for (const call of calls) {
    if (call.outcome === 'unknown') continue;
    const own = mayCount(call, limit) ? call.hits : 0;
    const high = begun.upTo(latest(call, clocks)) - gone.before(earliest(call, clocks)) - own;
    const low = Math.max(0, ended.before(call.start) - leaving.upTo(latest(call, clocks)));
    const finding = judgeCount(call, limit, low, high);
    if (finding) return [...findings, finding];
  }
  return findings;
};

/** A call found a count between two bounds. */
function judgeCount(call: Call, limit: Limit, low: number, high: number): Finding | undefined {
  if (call.outcome === 'refused')
    return high + Math.max(1, call.hits) > limit.limit - limit.early
      ? undefined
      : { why: `refused although at most ${high} of ${limit.limit} were taken`, calls: [call] };
  if (low + call.hits > limit.limit + limit.slack)
    return { why: `passed although at least ${low} of ${limit.limit} were taken`, calls: [call] };
  if (Number.isNaN(call.remaining) || !isExact(limit)) return undefined;
  const before = limit.limit - call.remaining - call.hits;
  if (before >= low && before <= high) return undefined;
  return { why: `states ${before} hits before it, but there were ${low} to ${high}`, calls: [call] };
}

/**
 * The estimate is the hits of this window, plus those of the previous one times the part of it that a window which ends
 * now still covers. Fractions may be dropped or counted as a hit.
 */
export const judgeSlidingCounter: Judge = (calls, limit, clocks) => {
  const windows = windowsOf(calls, limit, clocks);
  for (const window of windows.values()) {
    const before = windows.get(window.number - 1);
    const previousLow = sumOf((before?.certain ?? []).filter(hasPassed));
    const previousHigh = sumOf([...(before?.certain ?? []), ...(before?.possible ?? [])].filter(counts(limit)));
    const begun = new Sums([...window.certain, ...window.possible].filter(counts(limit)).map(byStart));
    const ended = new Sums(window.certain.filter(hasPassed).map(byEnd));
    const share = (ms: number): number => (window.endMs - ms) / limit.windowMs;
    for (const call of window.certain) {
      if (call.outcome === 'unknown') continue;
      const own = mayCount(call, limit) ? call.hits : 0;
      const low = Math.floor(ended.before(call.start) + previousLow * share(latest(call, clocks)));
      const high = Math.ceil(begun.upTo(call.end) - own + previousHigh * share(earliest(call, clocks)));
      const finding = judgeCount(call, limit, low, high);
      if (finding) return [finding];
    }
  }
  return [];
};

const counts =
  (limit: Limit) =>
  (call: Call): boolean =>
    mayCount(call, limit);
const byStart = ({ start, hits }: Call) => [start, hits] as const;
const byEnd = ({ end, hits }: Call) => [end, hits] as const;
