import { quantileMs } from '../observe/histogram.ts';
import type { DurationTotals } from '../observe/prometheus.ts';
import type { Statistics } from '../observe/stats.ts';
import { type Range, Series } from './series.ts';
import type { StoreLatency } from './store-latency.ts';

/** Requests by outcome; degraded: answered without one of their counters. */
export interface Outcomes {
  readonly passed: number;
  readonly refused: number;
  readonly degraded: number;
  readonly undecided: number;
}

/** All requests that callers made: the denominator of every share. */
export const offeredOf = ({ passed, refused, degraded, undecided }: Outcomes): number =>
  passed + refused + degraded + undecided;

/** The possible outcomes of a request. degraded: answered without one of its counters. */
const outcomes = ['passed', 'refused', 'degraded', 'undecided'] as const;

const latencies = ['p50Ms', 'p99Ms', 'storeP50Ms', 'storeP99Ms', 'lagMs'] as const;

/**
 * Requests per second by outcome, and answered requests per second that matched no rule; latencies of gRPC calls, those
 * of the store in the last minute, and the lag of the event loop in milliseconds; 0: not measured.
 */
export const serviceFields = [...outcomes, 'unmatched', ...latencies] as const;
export type ServiceRates = { readonly [F in (typeof serviceFields)[number]]: number };

const isLargest: ReadonlySet<string> = new Set(latencies);

const MINUTE_STEPS = 60;

type Counts = ReturnType<typeof countOutcomes>;

interface Lags {
  readonly lagMs: number;
  readonly store?: ReturnType<StoreLatency['minute']>;
}

/** The series of the whole service over the last minute, ten minutes, hour and day. */
export class ServiceSeries {
  readonly #series = new Series(serviceFields.map((field) => (isLargest.has(field) ? 'max' : 'mean')));
  #counts: Partial<Counts> = {};
  /** Requests without a decision so far by reason, now and in each of the last seconds, the oldest first. */
  #undecided: readonly Readonly<Record<string, number>>[] = [];
  #durations: DurationTotals | undefined;
  #last = Object.fromEntries(serviceFields.map((field) => [field, 0])) as ServiceRates; // it has all fields

  /** The rates of the last second. */
  get last(): ServiceRates {
    return this.#last;
  }

  /** Counts made before the series begin are not part of them. */
  begin(statistics: Statistics): void {
    this.#counts = countOutcomes(statistics);
    this.#undecided = [{ ...statistics.undecided }];
  }

  /** Call once a second. */
  gather(statistics: Statistics, durations: DurationTotals, { lagMs, store }: Lags): void {
    const counts = countOutcomes(statistics);
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
      storeP50Ms: store?.p50Ms ?? 0,
      storeP99Ms: store?.p99Ms ?? 0,
      lagMs: Math.round(lagMs * 10) / 10,
    };
    this.#undecided = [...this.#undecided.slice(-MINUTE_STEPS), { ...statistics.undecided }];
    this.#counts = counts;
    this.#durations = durations;
    this.#series.push(serviceFields.map((field) => this.#last[field]));
  }

  /** Requests of the last minute without a decision by reason; only reasons that occurred. */
  undecidedBy(): Readonly<Record<string, number>> {
    const [first = {}] = this.#undecided;
    const now = Object.entries(this.#undecided.at(-1) ?? {});
    const counts = now.map(([reason, count]) => [reason, count - (first[reason] ?? 0)] as const);
    return Object.fromEntries(counts.filter(([, count]) => count > 0));
  }

  /** Requests of the last minute by outcome, all of them, and those that matched no rule. */
  lastMinute() {
    const sum = (field: keyof Counts) => Math.round(this.#series.minuteSum(serviceFields.indexOf(field)));
    const [passed, refused, degraded, undecided] = [sum('passed'), sum('refused'), sum('degraded'), sum('undecided')];
    const counts = { passed, refused, degraded, undecided };
    return { ...counts, offered: offeredOf(counts), unmatched: sum('unmatched') };
  }

  /** Requests of the last minute, including those since the last step. */
  requestsOfMinute(statistics: Statistics): number {
    const counts = countOutcomes(statistics);
    return outcomes.reduce((sum, field) => {
      const sinceLast = Math.max(counts[field] - (this.#counts[field] ?? 0), 0);
      return sum + this.#series.minuteSum(serviceFields.indexOf(field)) + sinceLast;
    }, 0);
  }

  columns(range: Range): Readonly<Record<string, readonly number[]>> {
    return Object.fromEntries(serviceFields.map((field, at) => [field, this.#series.column(range, at)]));
  }
}

/** Requests so far by outcome, and those that matched no rule. */
export const countOutcomes = ({ answers, degradedAnswers, undecided, sums }: Statistics) => ({
  passed: answers.OK - degradedAnswers.OK,
  refused: answers.OVER_LIMIT - degradedAnswers.OVER_LIMIT,
  degraded: degradedAnswers.OK + degradedAnswers.OVER_LIMIT,
  undecided: Object.values(undecided).reduce((sum, requests) => sum + requests, 0),
  unmatched: sums.unmatched,
});
