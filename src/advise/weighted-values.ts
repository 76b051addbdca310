/** A value of keys, and for how many keys it stands. */
export interface WeightedValue {
  readonly value: number;
  readonly weight: number;
}

/** Of 95 %, one-sided. */
export const CONFIDENCE = 0.95;
const NORMAL_QUANTILE = 1.645;

/** Values in their order. */
export class WeightedValues {
  readonly sorted: readonly WeightedValue[];
  /** How many keys they stand for. */
  readonly total: number;
  /** How many keys of equal weight would say as much. @see https://en.wikipedia.org/wiki/Effective_sample_size */
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

  /** The least value that is at least as large as so large a part of them; 0: there are none. */
  quantile(part: number): number {
    let left = part * this.total - 1e-9;
    for (const { value, weight } of this.sorted) {
      left -= weight;
      if (left <= 0) return value;
    }
    return this.max;
  }

  /**
   * A value that is no smaller than the true quantile, of all keys that there might be, with 95 % confidence, whatever
   * their distribution: an order statistic, whose rank is binomial. The largest value where there are too few to say.
   *
   * @see https://en.wikipedia.org/wiki/Quantile#Estimating_quantiles_from_a_sample
   */
  quantileAtMost(part: number): number {
    return this.effective === 0 ? 0 : this.quantile(quantileRank(part, this.effective));
  }

  /** How many keys have a larger value. */
  above(value: number): number {
    let sum = 0;
    for (let at = this.sorted.length - 1; at >= 0; at--) {
      const one = this.sorted[at];
      if (!one || one.value <= value) break;
      sum += one.weight;
    }
    return sum;
  }
}

/**
 * The part of a sample whose quantile is no smaller than the true one, with 95 % confidence; 1 where the sample is too
 * small. By the normal approximation of the rank, with its correction for continuity.
 */
export function quantileRank(part: number, size: number): number {
  return Math.min(part + NORMAL_QUANTILE * Math.sqrt((part * (1 - part)) / size) + 0.5 / size, 1);
}

/** The largest part of all keys that can exceed what none of so many exceeds, with 95 % confidence. */
export const unseenPart = (keys: number): number => 1 - (1 - CONFIDENCE) ** (1 / Math.max(keys, 1));
