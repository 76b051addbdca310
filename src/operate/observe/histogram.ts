import type { Distribution, MetricSample } from './metric.ts';

/** The observations with the same labels. */
interface Observations extends Distribution {
  readonly counts: number[];
  sum: number;
}

/** A histogram with one or two labels, which are keys of maps: joining them would be too slow for each observation. */
export class Histogram {
  readonly #bounds: readonly number[];
  readonly #byLabels = new Map<string, Map<string | number | undefined, Observations>>();

  /** @param bounds  upper bounds of the buckets */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
  }

  observe(value: number, label: string, second?: string | number): void {
    const observations = this.#byLabels.get(label)?.get(second) ?? this.#begin(label, second);
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket++; // below the length
    observations.counts[bucket] = (observations.counts[bucket] ?? 0) + 1;
    observations.sum += value;
  }

  samples(): readonly MetricSample[] {
    return Array.from(this.#byLabels, ([label, bySecond]) =>
      Array.from(bySecond, ([second, observations]): MetricSample => {
        const labels = second === undefined ? [label] : [label, String(second)];
        return [labels, { ...observations, counts: [...observations.counts] }];
      }),
    ).flat();
  }

  #begin(label: string, second: string | number | undefined): Observations {
    const fresh = { bounds: this.#bounds, counts: new Array<number>(this.#bounds.length + 1).fill(0), sum: 0 };
    const bySecond = this.#byLabels.get(label) ?? new Map<string | number | undefined, Observations>();
    this.#byLabels.set(label, bySecond.set(second, fresh));
    return fresh;
  }
}

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
