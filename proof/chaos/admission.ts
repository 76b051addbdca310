import type { CallRecord } from './log.ts';
import type { ChaosRule } from './rules.ts';

/** An admitted call, which was counted between `fromMs` and `toMs`. */
export interface Admitted {
  readonly call: CallRecord;
  readonly fromMs: number;
  readonly toMs: number;
}

/** An interval in which calls that were certainly counted in it exceed the algorithm's bound. */
export interface Overrun {
  readonly fromMs: number;
  readonly toMs: number;
  readonly hits: number;
  readonly most: number;
  readonly calls: readonly CallRecord[];
}

/** The number of times that counters may have been lost in an interval. */
export type Losses = (fromMs: number, toMs: number) => number;

/** The run and the counters use the clock of the same machine, but round to milliseconds at different places. */
export const CLOCK_SLACK_MS = 5;
/** Maximum interval checked for algorithms that bound every interval. */
const REACH_MS = 30_000;
/** How long after leaving its bucket a leased token may be spent. */
const MAX_LEASE_MS = 1_000;

/**
 * Finds intervals in which more was admitted than the algorithm permits. Each loss of counters permits one further
 * limit. Depends on the algorithms' guarantees only, not on their implementation.
 *
 * @param admitted  calls of one key, in any order
 */
export function findOverruns(rule: ChaosRule, admitted: readonly Admitted[], losses: Losses): readonly Overrun[] {
  const { algorithm, limit, windowMs, burst = limit, isLeased } = rule;
  switch (algorithm) {
    case 'fixed_window':
      return windowOverruns(rule, admitted, losses);
    case 'sliding_window_counter':
      return estimateOverruns(rule, admitted, losses);
    case 'sliding_window_log':
    case 'sliding_window_buckets':
      return intervalOverruns(admitted, losses, { base: limit, perMs: 0, aheadMs: 0, reachMs: windowMs });
    case 'in_flight':
    case 'reserve':
      return []; // slots are released, and charges differ from reservations: see slots.ts, reservations.ts
    case 'token_bucket':
    case 'leaky_bucket': {
      const aheadMs = isLeased ? MAX_LEASE_MS : 0;
      return intervalOverruns(admitted, losses, {
        base: burst,
        perMs: limit / windowMs,
        aheadMs,
        reachMs: REACH_MS,
      });
    }
  }
}

/** Each window, from one multiple of its length to the next, admits at most the limit. */
function windowOverruns({ limit, windowMs }: ChaosRule, admitted: readonly Admitted[], losses: Losses): Overrun[] {
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
  /** Hits at one moment. */
  readonly base: number;
  /** Further hits per millisecond. */
  readonly perMs: number;
  /** How long before their answers hits may have been taken. */
  readonly aheadMs: number;
  /** Only shorter intervals are bounded. */
  readonly reachMs: number;
}

/** Any interval admits at most `base` hits plus `perMs` hits per millisecond. */
function intervalOverruns(admitted: readonly Admitted[], losses: Losses, bound: IntervalBound): Overrun[] {
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
 * No hit may pass if the earlier hits of this window plus the part of the previous window that still counts exceed the
 * limit; fractions of a hit are dropped.
 */
function estimateOverruns({ limit, windowMs }: ChaosRule, admitted: readonly Admitted[], losses: Losses): Overrun[] {
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

/** The calls that were certainly counted within one window, by the window's number since the epoch. */
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
