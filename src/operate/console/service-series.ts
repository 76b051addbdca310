import type { DurationTotals } from '../observe/prometheus.ts';
import type { Statistics } from '../observe/stats.ts';
import { Episode } from './episode.ts';
import { type Range, Series } from './series.ts';

/** The possible outcomes of a request. degraded: answered without one of its counters. */
const outcomes = ['passed', 'refused', 'degraded', 'undecided'] as const;

/**
 * Requests per second by outcome, and answered requests per second that matched no rule; latencies of gRPC calls and
 * the lag of the event loop in milliseconds.
 */
export const serviceFields = [...outcomes, 'unmatched', 'p50Ms', 'p99Ms', 'lagMs'] as const;
export type ServiceRates = { readonly [F in (typeof serviceFields)[number]]: number };

/** Start of each outcome's current streak, in milliseconds since the epoch; absent if it has not occurred for minutes. */
export type Since = { readonly [F in 'refused' | 'degraded' | 'undecided' | 'unmatched']?: number };

/** An outage ends after this long without a failed or degraded request. */
const OUTAGE_QUIET_MS = 15_000;

const isLargest: ReadonlySet<string> = new Set(['p50Ms', 'p99Ms', 'lagMs']);

type Counts = ReturnType<typeof pickCounts>;

/** The series of the whole service over the last minute, ten minutes, hour and day. */
export class ServiceSeries {
  readonly #series = new Series(serviceFields.map((field) => (isLargest.has(field) ? 'max' : 'mean')));
  readonly #episodes = [
    ['refused', new Episode()],
    ['unmatched', new Episode()],
    ['degraded', new Episode(OUTAGE_QUIET_MS)],
    ['undecided', new Episode(OUTAGE_QUIET_MS)],
  ] as const;
  #counts: Partial<Counts> = {};
  #durations: DurationTotals | undefined;
  #last = { passed: 0, refused: 0, degraded: 0, undecided: 0, unmatched: 0, p50Ms: 0, p99Ms: 0, lagMs: 0 };

  /** The rates of the last second. */
  get last(): ServiceRates {
    return this.#last;
  }

  /** Counts made before the series begin are not part of them. */
  begin(statistics: Statistics): void {
    this.#counts = pickCounts(statistics);
  }

  /** Call once a second. */
  gather(statistics: Statistics, durations: DurationTotals, { lagMs, nowMs }: Record<'lagMs' | 'nowMs', number>): void {
    const counts = pickCounts(statistics);
    const rate = (name: keyof Counts): number => Math.max(counts[name] - (this.#counts[name] ?? 0), 0);
    const buckets = durations.counts.map((count, at) => count - (this.#durations?.counts[at] ?? 0));
    this.#last = {
      passed: rate('passed'),
      refused: rate('refused'),
      degraded: rate('degraded'),
      undecided: rate('undecided'),
      unmatched: rate('unmatched'),
      p50Ms: quantileMs(0.5, buckets, durations.boundsMs),
      p99Ms: quantileMs(0.99, buckets, durations.boundsMs),
      lagMs: Math.round(lagMs * 10) / 10,
    };
    this.#counts = counts;
    this.#durations = durations;
    this.#series.push(serviceFields.map((field) => this.#last[field]));
    for (const [field, episode] of this.#episodes) if (this.#last[field] > 0) episode.note(nowMs);
  }

  /** When requests began to be refused, degraded, undecided and unmatched. */
  since(nowMs: number): Since {
    const known = this.#episodes.flatMap(([field, episode]) => {
      const sinceMs = episode.sinceMs(nowMs);
      return sinceMs === undefined ? [] : [[field, sinceMs] as const];
    });
    return Object.fromEntries(known);
  }

  /** Requests of the last minute, including those since the last step. */
  requestsOfMinute(statistics: Statistics): number {
    const counts = pickCounts(statistics);
    return outcomes.reduce((sum, field) => {
      const sinceLast = Math.max(counts[field] - (this.#counts[field] ?? 0), 0);
      return sum + this.#series.minuteSum(serviceFields.indexOf(field)) + sinceLast;
    }, 0);
  }

  columns(range: Range): Readonly<Record<string, readonly number[]>> {
    return Object.fromEntries(serviceFields.map((field, at) => [field, this.#series.column(range, at)]));
  }
}

const pickCounts = ({ answers, degradedAnswers, undecided, sums }: Statistics) => ({
  passed: answers.OK - degradedAnswers.OK,
  refused: answers.OVER_LIMIT - degradedAnswers.OVER_LIMIT,
  degraded: degradedAnswers.OK + degradedAnswers.OVER_LIMIT,
  undecided: Object.values(undecided).reduce((sum, requests) => sum + requests, 0),
  unmatched: sums.unmatched,
});

/**
 * Estimates a quantile from a histogram, assuming an even spread within each bucket; 0 for an empty histogram.
 *
 * @param counts    per bucket, not cumulative
 * @param boundsMs  upper bounds; the last bucket has none, and counts as its lower bound
 */
export function quantileMs(quantile: number, counts: readonly number[], boundsMs: readonly number[]): number {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return 0;
  let left = quantile * total;
  for (const [at, count] of counts.entries()) {
    const lower = boundsMs[at - 1] ?? 0;
    const upper = boundsMs[at] ?? lower;
    if (count >= left && count > 0) return Math.round((lower + ((upper - lower) * left) / count) * 100) / 100;
    left -= count;
  }
  return boundsMs.at(-1) ?? 0;
}
