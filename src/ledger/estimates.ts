import type { CounterKey } from '../backends/key.ts';

/** Amounts that are remembered of a counter: the last ones. */
const MAX_SAMPLES = 128;
/** With fewer there is no estimate. */
const MIN_SAMPLES = 20;
/** Counters that are remembered: the last ones used, about 1 kB each. */
const MAX_COUNTERS = 4_096;

/** What 95 of 100 requests use at most. */
export interface Estimates {
  /** Undefined: too few are known. */
  of(key: CounterKey): number | undefined;
  /** Notes what a request has used. */
  note(key: CounterKey, hits: number): void;
}

interface Samples {
  readonly amounts: Float64Array;
  noted: number;
  /** Of the amounts; undefined: they have changed. */
  p95: number | undefined;
}

/** Estimates from what this process has seen used. */
export function createEstimates(): Estimates {
  const known = new Map<CounterKey, Samples>(); // the last used is the last
  return {
    of(key) {
      const samples = known.get(key);
      if (!samples || samples.noted < MIN_SAMPLES) return undefined;
      samples.p95 ??= p95Of(samples);
      return samples.p95;
    },
    note(key, hits) {
      const samples = known.get(key) ?? { amounts: new Float64Array(MAX_SAMPLES), noted: 0, p95: undefined };
      samples.amounts[samples.noted++ % MAX_SAMPLES] = hits;
      samples.p95 = undefined;
      known.delete(key);
      known.set(key, samples);
      if (known.size <= MAX_COUNTERS) return;
      for (const oldest of known.keys()) {
        known.delete(oldest);
        break;
      }
    },
  };
}

/** The nearest rank: one of the amounts. */
function p95Of({ amounts, noted }: Samples): number {
  const sorted = amounts.slice(0, Math.min(noted, MAX_SAMPLES)).sort();
  return sorted[Math.ceil(0.95 * sorted.length) - 1] ?? 0;
}

/** The same estimates; what is noted changes nothing. */
export const readOnly = ({ of }: Estimates): Estimates => ({ of, note: () => {} });
