import type { CallRecord } from './log.ts';
import type { ChaosRule } from './rules.ts';

/** An admitted call: it was counted at some moment from `fromMs` to `toMs`. */
export interface Admitted {
  readonly call: CallRecord;
  readonly fromMs: number;
  readonly toMs: number;
}

/** More was admitted than the algorithm may, by calls that were certainly counted from `fromMs` to `toMs`. */
export interface Overrun {
  readonly fromMs: number;
  readonly toMs: number;
  readonly hits: number;
  readonly most: number;
  readonly calls: readonly CallRecord[];
}

/** How many times counters may have started anew from one time to another. */
export type Losses = (fromMs: number, toMs: number) => number;

/** The clocks of the run and of the counters are the same machine's; each is cut to whole milliseconds somewhere. */
export const CLOCK_SLACK_MS = 5;
/** The longest interval that is checked for algorithms with a bound for every interval. */
const REACH_MS = 30_000;
/** A leased token may be spent so long after it has left its bucket. */
const LONGEST_LEASE_MS = 1_000;

/**
 * Finds where more was admitted than the algorithm may admit, each time that the counters started anew counted as another whole limit.
 * Knows nothing of how the algorithms are built, only what they promise.
 *
 * @param admitted  calls of one key, in any order
 */
export function findOverruns(rule: ChaosRule, admitted: readonly Admitted[], losses: Losses): readonly Overrun[] {
  const { algorithm, limit, windowMs, burst = limit, isLeased } = rule;
  switch (algorithm) {
    case 'fixed_window':
      return overrunsOfWindows(rule, admitted, losses);
    case 'sliding_window_counter':
      return overrunsOfEstimate(rule, admitted, losses);
    case 'sliding_window_log':
    case 'sliding_window_buckets':
      return overrunsOfIntervals(admitted, losses, { base: limit, perMs: 0, aheadMs: 0, reachMs: windowMs });
    case 'in_flight':
    case 'reserve':
      return []; // slots are given back, and what is reserved is not what is charged: see slots.ts, reservations.ts
    case 'token_bucket':
    case 'leaky_bucket': {
      const aheadMs = isLeased ? LONGEST_LEASE_MS : 0;
      return overrunsOfIntervals(admitted, losses, {
        base: burst,
        perMs: limit / windowMs,
        aheadMs,
        reachMs: REACH_MS,
      });
    }
  }
}

/** From one multiple of the window's length to the next at most the limit. */
function overrunsOfWindows({ limit, windowMs }: ChaosRule, admitted: readonly Admitted[], losses: Losses): Overrun[] {
  const overruns: Overrun[] = [];
  for (const [at, within] of byWindow(admitted, windowMs)) {
    const [fromMs, toMs] = [at * windowMs, (at + 1) * windowMs];
    const hits = sum(within);
    const most = limit * (1 + losses(fromMs, toMs));
    if (hits > most) overruns.push({ fromMs, toMs, hits, most, calls: within.map(({ call }) => call) });
  }
  return overruns;
}

interface IntervalBound {
  /** Hits at once. */
  readonly base: number;
  /** And hits a millisecond. */
  readonly perMs: number;
  /** By so much earlier hits may have been taken than they were answered. */
  readonly aheadMs: number;
  /** Only intervals that are shorter than this are bounded. */
  readonly reachMs: number;
}

/** In any interval at most so many at once, and so many a millisecond. */
function overrunsOfIntervals(admitted: readonly Admitted[], losses: Losses, bound: IntervalBound): Overrun[] {
  const { base, perMs, aheadMs, reachMs } = bound;
  const byStart = admitted.toSorted((a, b) => a.fromMs - b.fromMs);
  const byEnd = admitted.toSorted((a, b) => a.toMs - b.toMs);
  const overruns: Overrun[] = [];
  let firstEnd = 0;
  let afterMs = Number.NEGATIVE_INFINITY; // reports one interval, not all overlapping ones
  for (const { fromMs } of byStart) {
    while ((byEnd[firstEnd]?.toMs ?? Number.POSITIVE_INFINITY) < fromMs) firstEnd++;
    if (fromMs < afterMs) continue;
    const within: Admitted[] = [];
    let hits = 0;
    for (let at = firstEnd; at < byEnd.length; at++) {
      const next = byEnd[at];
      if (!next || next.toMs >= fromMs + reachMs - CLOCK_SLACK_MS) break;
      if (next.fromMs < fromMs) continue;
      within.push(next);
      hits += next.call.hits;
      const { toMs } = next;
      const most = base * (1 + losses(fromMs - aheadMs, toMs)) + perMs * (toMs - fromMs + CLOCK_SLACK_MS + aheadMs);
      if (hits <= most) continue;
      overruns.push({ fromMs, toMs, hits, most, calls: within.map(({ call }) => call) });
      afterMs = toMs;
      break;
    }
  }
  return overruns;
}

/**
 * No hit may pass where this window's hits before it and, of the window before, the part that still counts come to more than the limit; a
 * fraction of a hit is dropped.
 */
function overrunsOfEstimate({ limit, windowMs }: ChaosRule, admitted: readonly Admitted[], losses: Losses): Overrun[] {
  const windows = byWindow(admitted, windowMs);
  const overruns: Overrun[] = [];
  for (const [at, within] of windows) {
    const before = windows.get(at - 1) ?? [];
    for (const hit of within) {
      const [fromMs, toMs] = [(at - 1) * windowMs, hit.toMs];
      const counted = [...within.filter((other) => other.toMs <= hit.fromMs), hit];
      const part = Math.max(1 - (toMs + CLOCK_SLACK_MS - at * windowMs) / windowMs, 0);
      const hits = sum(before) * part + sum(counted);
      const most = (limit + 1) * (1 + losses(fromMs, toMs));
      if (hits < most) continue;
      overruns.push({ fromMs, toMs, hits, most, calls: [...before, ...counted].map(({ call }) => call) });
      break;
    }
  }
  return overruns;
}

/** The calls that were certainly counted in one window, by the window's number since the epoch. */
function byWindow(admitted: readonly Admitted[], windowMs: number): ReadonlyMap<number, Admitted[]> {
  const windows = new Map<number, Admitted[]>();
  for (const call of admitted) {
    const at = Math.floor((call.fromMs - CLOCK_SLACK_MS) / windowMs);
    if (at !== Math.floor((call.toMs + CLOCK_SLACK_MS) / windowMs)) continue;
    const within = windows.get(at) ?? [];
    within.push(call);
    windows.set(at, within);
  }
  return windows;
}

const sum = (admitted: readonly Admitted[]): number => admitted.reduce((hits, { call }) => hits + call.hits, 0);
