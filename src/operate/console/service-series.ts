import type { DurationTotals } from '../observe/prometheus.ts';
import type { Statistics } from '../observe/stats.ts';
import { type Range, Series } from './series.ts';

/** Per second, except the latencies of gRPC calls and the lag of the event loop, which are in milliseconds. */
export const serviceFields = ['passed', 'refused', 'degraded', 'undecided', 'p50Ms', 'p99Ms', 'lagMs'] as const;
export type ServiceRates = { readonly [F in (typeof serviceFields)[number]]: number };

/** The outcomes of a request; each request has one. */
const requestFields = ['passed', 'refused', 'undecided'] as const;

const isLargest: ReadonlySet<string> = new Set(['p50Ms', 'p99Ms', 'lagMs']);

/** The series of the whole service over the last minute, hour and day. */
export class ServiceSeries {
  readonly #series = new Series(serviceFields.map((field) => (isLargest.has(field) ? 'max' : 'mean')));
  #counts: Readonly<Record<string, number>> = {};
  #durations: DurationTotals | undefined;
  #last: ServiceRates = { passed: 0, refused: 0, degraded: 0, undecided: 0, p50Ms: 0, p99Ms: 0, lagMs: 0 };

  /** The rates of the last second. */
  get last(): ServiceRates {
    return this.#last;
  }

  /** What has been counted before the series begin is no part of them. */
  begin(statistics: Statistics): void {
    this.#counts = countsOf(statistics);
  }

  /** To be called once a second. */
  gather(statistics: Statistics, durations: DurationTotals, lagMs: number): void {
    const counts = countsOf(statistics);
    const rate = (name: keyof typeof counts): number => Math.max(counts[name] - (this.#counts[name] ?? 0), 0);
    const buckets = durations.counts.map((count, at) => count - (this.#durations?.counts[at] ?? 0));
    this.#last = {
      passed: rate('passed'),
      refused: rate('refused'),
      degraded: rate('degraded'),
      undecided: rate('undecided'),
      p50Ms: quantileMs(0.5, buckets, durations.boundsMs),
      p99Ms: quantileMs(0.99, buckets, durations.boundsMs),
      lagMs: Math.round(lagMs * 10) / 10,
    };
    this.#counts = counts;
    this.#durations = durations;
    this.#series.push(serviceFields.map((field) => this.#last[field]));
  }

  /** Requests of the last minute, including those since the last step. */
  requestsOfMinute(statistics: Statistics): number {
    const counts = countsOf(statistics);
    return requestFields.reduce((sum, field) => {
      const sinceLast = Math.max(counts[field] - (this.#counts[field] ?? 0), 0);
      return sum + this.#series.minuteSum(serviceFields.indexOf(field)) + sinceLast;
    }, 0);
  }

  columns(range: Range): Readonly<Record<string, readonly number[]>> {
    return Object.fromEntries(serviceFields.map((field, at) => [field, this.#series.column(range, at)]));
  }
}

const countsOf = ({ answers, degraded, undecided }: Statistics) => ({
  passed: answers.OK,
  refused: answers.OVER_LIMIT,
  degraded: Object.values(degraded).reduce((sum, hits) => sum + hits, 0),
  undecided: Object.values(undecided).reduce((sum, requests) => sum + requests, 0),
});

/**
 * Estimates a quantile from a histogram, assuming that durations are spread evenly within a bucket. 0: there were none.
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
