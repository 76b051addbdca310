/** The value of a key, and the number of keys that it represents. */
interface WeightedValue {
  readonly value: number;
  readonly weight: number;
}

/** One-sided confidence. */
export const CONFIDENCE = 0.95;
const NORMAL_QUANTILE = 1.645;

/** Values in ascending order. */
export class WeightedValues {
  readonly sorted: readonly WeightedValue[];
  /** Number of keys that they represent. */
  readonly total: number;
  /** Number of equally weighted keys for this precision. @see https://en.wikipedia.org/wiki/Effective_sample_size */
  readonly effective: number;

  constructor(values: Iterable<WeightedValue>) {
    this.sorted = [...values].sort((one, other) => one.value - other.value);
    let total = 0;
    let squares = 0;
    for (const { weight } of this.sorted) {
      total += weight;
      squares += weight * weight;
    }
    this.total = total;
    this.effective = squares === 0 ? 0 : (total * total) / squares;
  }

  get max(): number {
    return this.sorted.at(-1)?.value ?? 0;
  }

  /** Minimum value that this fraction of the keys does not exceed; 0 without keys. */
  quantile(part: number): number {
    let left = part * this.total - 1e-9;
    for (const { value, weight } of this.sorted) {
      left -= weight;
      if (left <= 0) return value;
    }
    return this.max;
  }

  /**
   * Upper bound, with 95 % confidence, of the true quantile over all possible keys, whatever their distribution. It is
   * an order statistic whose rank is binomial, or the maximum if there are too few keys.
   *
   * @see https://en.wikipedia.org/wiki/Quantile#Estimating_quantiles_from_a_sample
   */
  quantileAtMost(part: number): number {
    return this.effective === 0 ? 0 : this.quantile(quantileRank(part, this.effective));
  }
}

/**
 * Fraction of a sample whose quantile is an upper bound of the true one with 95 % confidence; 1 if the sample is too
 * small. Uses the normal approximation of the rank, with its continuity correction.
 */
export function quantileRank(part: number, size: number): number {
  return Math.min(part + NORMAL_QUANTILE * Math.sqrt((part * (1 - part)) / size) + 0.5 / size, 1);
}

/** Maximum fraction of all keys that can exceed a value, with 95 % confidence, if none of `keys` does. */
export const unseenPart = (keys: number): number => 1 - (1 - CONFIDENCE) ** (1 / Math.max(keys, 1));
