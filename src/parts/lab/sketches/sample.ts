import { WINDOW_SLOTS } from './rotating-top.ts';

/** The requests counted in each ten seconds before any is skipped. */
export const EXACT = 20_000;
/** If ten seconds have more requests, between half of this number and this number are counted. */
export const SAMPLED = 10_000;

/**
 * Chooses the requests to count, so that counting takes no more time at high rates. In each ten seconds, 20,000
 * requests are counted. After them, one hit in 4 is counted, with a weight of 4, then one in 8, and so on. The next ten
 * seconds begin with the ratio that would have counted 5,000 to 10,000 of the previous ones. A request counts as many
 * times as it has hits in the sample.
 *
 * Each block of `oneIn` hits has one counted hit, at a random place, so that periodic traffic is counted like any
 * other. Hence an estimate is a sum over independent blocks, each of which adds at most `oneIn`, and the variance for n
 * hits is at most `oneIn` × n: see `samplingError`.
 */
export class Sample {
  readonly #random: () => number;
  #oneIn = 1;
  /** Hits to skip before the next counted hit. */
  #skips = 0;
  /** Hits of the current block that follow its counted hit. */
  #rest = 0;
  /** The sum of `oneIn` over the requests counted in these ten seconds. */
  #load = 0;
  /** The highest `oneIn` of each ten seconds in the window, the newest first. */
  readonly #highest: number[] = [1];

  /** @param random  returns 0 to below 1 */
  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** At all times of the last minute, at least one hit in this many was counted; 1: every hit was. */
  get oneIn(): number {
    return Math.max(...this.#highest);
  }

  /**
   * The weight to count a request with; 0: it is not in the sample.
   *
   * @param hits  1 or more
   */
  weightOf(hits: number): number {
    if (hits > this.#skips) return this.#pick(hits);
    this.#skips -= hits;
    return 0;
  }

  /** To be called every ten seconds. */
  rotate(): void {
    let oneIn = 1;
    if (this.#load > EXACT) while (this.#load > SAMPLED * oneIn) oneIn *= 2;
    this.#oneIn = oneIn;
    this.#load = 0;
    this.#highest.unshift(oneIn);
    if (this.#highest.length > WINDOW_SLOTS) this.#highest.pop();
    this.#startBlock(0);
  }

  /** Counts a request that contains the next counted hit, and maybe counted hits of later blocks. */
  #pick(hits: number): number {
    const oneIn = this.#oneIn;
    this.#load += oneIn;
    const behind = hits - 1 - this.#skips - this.#rest;
    if (behind < 0) {
      this.#finishBlock(-behind);
      return oneIn;
    }
    const begun = behind % oneIn;
    const picks = 1 + (behind - begun) / oneIn;
    if (begun === 0) {
      this.#finishBlock(0);
      return picks * oneIn;
    }
    this.#startBlock(-begun);
    if (this.#skips >= 0) return picks * oneIn;
    this.#finishBlock(oneIn - begun);
    return (picks + 1) * oneIn;
  }

  /** @param left  the remaining hits of the current block: none of them is counted */
  #finishBlock(left: number): void {
    if (this.#load >= EXACT) while (this.#load >= SAMPLED * this.#oneIn) this.#oneIn *= 2;
    this.#highest[0] = this.#oneIn;
    this.#startBlock(left);
  }

  /** @param gap  hits before the block; below 0: hits of the block that have already arrived */
  #startBlock(gap: number): void {
    const place = Math.floor(this.#random() * this.#oneIn);
    this.#skips = gap + place;
    this.#rest = this.#oneIn - 1 - place;
  }
}
