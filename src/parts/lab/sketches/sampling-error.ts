import type { ShownKey } from './shapes.ts';
import type { TopList } from './space-saving.ts';

/** The confidence of the bounds for sampled counts. */
const CONFIDENCE = 0.999;

/** Each side is exceeded with half of the remaining probability. */
const L = Math.log(2 / (1 - CONFIDENCE));

/** The probability with which each bound holds. */
export const sampleConfidence = (countedOneIn: number): number => (countedOneIn === 1 ? 1 : CONFIDENCE);

/** The list of one or several processes, and the sampling ratio: see `Sample`. */
interface SampledList {
  readonly list: TopList;
  readonly countedOneIn: number;
}

/** Bounds on the error of a key's count, in hits. @param error  the error of `count` in the table */
export function countBounds(
  count: number,
  error: number,
  countedOneIn: number,
): Pick<ShownKey, 'atMostTooHighBy' | 'atMostTooLowBy'> {
  if (countedOneIn === 1) return { atMostTooHighBy: error };
  return {
    atMostTooHighBy: error + tooHighBy(count - error, countedOneIn),
    atMostTooLowBy: tooLowBy(count, countedOneIn),
  };
}

/** The most hits that a key may have had without being listed. */
export function unlistedAtMost({ list: { unlistedAtMost: counted }, countedOneIn }: SampledList): number {
  return countedOneIn === 1 ? counted : counted + tooLowBy(counted, countedOneIn);
}

/**
 * The most by which an estimate of n hits may be too low. The estimate is a sum of independent terms of at most w,
 * whose mean squares add up to w × n. So the probability that it is below n by x is at most exp(−x² ÷ 2wn) (Maurer
 * 2003: A bound on the deviation probability for sums of non-negative random variables).
 */
function tooLowBy(estimate: number, w: number): number {
  return Math.ceil(L * w + Math.sqrt(L * w * (L * w + 2 * estimate)));
}

/** The most by which it may be too high: by y with a probability of at most exp(−y² ÷ 2(wn + wy ÷ 3)) (Bernstein). */
function tooHighBy(estimate: number, w: number): number {
  const c = (2 / 3) * L * w;
  return Math.min(estimate, Math.ceil(Math.sqrt(c * c + 2 * L * w * estimate) - c));
}
