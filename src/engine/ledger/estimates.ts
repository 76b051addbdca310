import type { Counter, CounterKey } from '../backends/key.ts';
import { fullCapacity, isReservation, type Limit } from '../holds/limits.ts';
import { boundedHits, createDebit, type Debit } from './debit.ts';

/** Maximum fraction of a limit that is reserved for one request based on other requests' use. */
const LARGEST_SHARE = 0.5;

/** Number of recent amounts kept for a counter. */
const MAX_SAMPLES = 128;
/** Minimum number of amounts for an estimate. */
const MIN_SAMPLES = 20;
/** Number of recently used counters that are kept, about 1 kB each. */
const MAX_COUNTERS = 4_096;

/** The 95th percentile of the hits that requests use. */
export interface Estimates {
  /** The percentile of a counter; undefined if too few amounts are known. */
  of(key: CounterKey): number | undefined;
  /** Records the hits that a request has used. */
  note(key: CounterKey, hits: number): void;
}

interface Samples {
  readonly amounts: Float64Array;
  noted: number;
  /** The percentile; undefined after the amounts have changed. */
  p95: number | undefined;
}

/** Estimates based on the use that this process has seen. */
export function createEstimates(): Estimates {
  const known = new Map<CounterKey, Samples>(); // in order of last use
  return {
    of(key) {
      const samples = known.get(key);
      if (!samples || samples.noted < MIN_SAMPLES) return undefined;
      samples.p95 ??= percentile95(samples);
      return samples.p95;
    },
    note(key, hits) {
      const samples = known.get(key) ?? { amounts: new Float64Array(MAX_SAMPLES), noted: 0, p95: undefined };
      samples.amounts[samples.noted++ % MAX_SAMPLES] = hits;
      samples.p95 = undefined;
      known.delete(key);
      known.set(key, samples);
      if (known.size <= MAX_COUNTERS) return;
      const [oldest = key] = known.keys();
      known.delete(oldest);
    },
  };
}

/** The nearest rank, which is one of the amounts. */
function percentile95({ amounts, noted }: Samples): number {
  const sorted = amounts.slice(0, Math.min(noted, MAX_SAMPLES)).sort();
  return sorted[Math.ceil(0.95 * sorted.length) - 1] ?? 0;
}

/** The requested hits, or more if the limit requires it; peeks and refunds are unchanged. @internal */
export function atLeast(limit: Limit, { key }: Counter, hits: number, estimates: Estimates | undefined): number {
  if (hits <= 0 || !isReservation(limit)) return hits;
  const { estimate = 0, inner } = limit;
  if (estimate !== 'p95') return Math.max(hits, estimate);
  // without this bound, a high estimate could refuse all requests, and would then never change
  const most = Math.floor(fullCapacity(inner) * LARGEST_SHARE);
  return Math.max(hits, Math.min(estimates?.of(key) ?? 0, most));
}

/** Charges the usage of a request. Never refuses. @param hits  the sign is ignored @internal */
export function usedDebit(
  counter: Counter,
  one: Parameters<typeof createDebit>[1],
  hits: number,
  estimates: Estimates | undefined,
): Debit {
  // 0 hits may be a failed request, which says nothing about the usage of others
  const learns = isReservation(one.limit) && one.limit.estimate === 'p95';
  if (hits !== 0 && learns) estimates?.note(counter.key, Math.abs(hits));
  const debit = createDebit(counter, one, hits, false);
  return { ...debit, kind: 'spend', hits: boundedHits(one.limit, hits) }; // 0 hits are not a peek
}
