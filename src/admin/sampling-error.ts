import type { TopList } from './space-saving.ts';

/** Of the bounds of what was sampled. */
const CONFIDENCE = 0.999;

/** Each side is exceeded with half of what remains. */
const L = Math.log(2 / (1 - CONFIDENCE));

/** The probability with which each bound holds. */
export const confidenceOf = (countedOneIn: number): number => (countedOneIn === 1 ? 1 : CONFIDENCE);

/** What one process, or several, have counted, and one hit in how many was counted: see `Sample`. */
export interface SampledList {
  readonly list: TopList;
  readonly countedOneIn: number;
}

/** How far the count of a key may be from what it was, in hits. */
export interface CountBounds {
  readonly atMostTooHighBy: number;
  /** Absent: it is not too low. */
  readonly atMostTooLowBy?: number;
}

/** @param error  of `count`, by what the table has counted */
export function boundsOf(count: number, error: number, countedOneIn: number): CountBounds {
  if (countedOneIn === 1) return { atMostTooHighBy: error };
  return {
    atMostTooHighBy: error + tooHighBy(count - error, countedOneIn),
    atMostTooLowBy: tooLowBy(count, countedOneIn),
  };
}

/** A key that is not listed has had so many hits at most. */
export function unlistedAtMost({ list: { unlistedAtMost: counted }, countedOneIn }: SampledList): number {
  return countedOneIn === 1 ? counted : counted + tooLowBy(counted, countedOneIn);
}

/**
 * By how much an estimate may be below n hits. It is a sum of independent terms of w at most, and w × n is the sum of
 * their mean squares. So it is below n by x with a probability of exp(−x² ÷ 2wn) at most (Maurer 2003: A bound on the
 * deviation probability for sums of non-negative random variables).
 */
function tooLowBy(estimate: number, w: number): number {
  return Math.ceil(L * w + Math.sqrt(L * w * (L * w + 2 * estimate)));
}

/** By how much an estimate may be above n hits: by Bernstein's inequality by y with exp(−y² ÷ 2(wn + wy ÷ 3)). */
function tooHighBy(estimate: number, w: number): number {
  const c = (2 / 3) * L * w;
  return Math.min(estimate, Math.ceil(Math.sqrt(c * c + 2 * L * w * estimate) - c));
}
