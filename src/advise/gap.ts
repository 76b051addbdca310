import { quantileRank, type WeightedValues } from './weighted-values.ts';

/** Keys that stand apart are no larger a part of all keys than this: else they are what is usual. */
export const MOST_APART = 1 / 3;

/** How many times as much they need as nearly all other keys. */
export const LEAST_RATIO = 3;

/**
 * The difference of the square roots that chance does not explain. The root of a Poisson count has a standard deviation
 * of one half, so that this is almost three of the difference of two counts.
 *
 * @see https://en.wikipedia.org/wiki/Anscombe_transform
 */
const LEAST_ROOT_DIFFERENCE = 2;

/** Where the keys that need far more than all others begin. */
export interface Gap {
  /** What nearly all others need at most. */
  readonly below: number;
  /** The least that the keys apart need. */
  readonly above: number;
}

/**
 * The lowest value from which on keys need far more than nearly all keys below it, and few enough keys do; undefined:
 * the keys are one group.
 *
 * @param part  nearly all: of the keys below
 */
export function findGap({ sorted, total }: WeightedValues, part: number): Gap | undefined {
  const sums: number[] = []; // up to each value, with it
  let sum = 0;
  let squares = 0;
  for (const { value, weight } of sorted) {
    const low = sums.length === 0 ? 0 : below(sorted, sums, quantileRank(part, (sum * sum) / squares) * sum);
    if (sums.length > 0 && total - sum <= MOST_APART * total && isGap(low, value)) return { below: low, above: value };
    sum += weight;
    squares += weight * weight;
    sums.push(sum);
  }
  return undefined;
}

const isGap = (low: number, high: number): boolean =>
  high >= LEAST_RATIO * low && Math.sqrt(high) - Math.sqrt(low) >= LEAST_ROOT_DIFFERENCE;

/** The first value up to which the weights come to so much. */
function below(sorted: WeightedValues['sorted'], sums: readonly number[], weight: number): number {
  let [low, high] = [0, sums.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sums[middle] ?? 0) >= weight - 1e-9) high = middle;
    else low = middle + 1;
  }
  return sorted[low]?.value ?? 0;
}
