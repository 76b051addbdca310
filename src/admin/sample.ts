import { WINDOW_SLOTS } from './rotating-top.ts';

/** Of ten seconds so many requests are counted before any is skipped. */
export const EXACT = 20_000;
/** Of ten seconds that have more, up to so many are counted, and at least half of it. */
export const SAMPLED = 10_000;

/**
 * Chooses what is counted, so that counting takes no more time at high rates. Of ten seconds, 20,000 requests are
 * counted. Then one hit of each 4 is, as 4, then one of each 8, and so on. Ten seconds behind them begin with the ratio
 * at which the last ones would have had 5,000 to 10,000. A request is in the sample as often as hits of it are.
 *
 * Each block of `oneIn` hits has one that is counted, at a random place of its own, so that periodic traffic is counted
 * as any other. Hence an estimate is a sum over independent blocks, each of which adds `oneIn` at most, and of n hits
 * its variance is `oneIn` × n at most: see `samplingError`.
 */
export class Sample {
  readonly #random: () => number;
  #oneIn = 1;
  /** Hits to skip before the next one that is counted. */
  #skips = 0;
  /** Hits of its block that follow it. */
  #rest = 0;
  /** Sum of `oneIn` over the requests that were counted in these ten seconds. */
  #load = 0;
  /** The highest `oneIn` of each ten seconds in the window, the newest first. */
  readonly #highest: number[] = [1];

  /** @param random  from 0 to below 1 */
  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** In no part of the last minute fewer than one hit in so many were counted; 1: every one was. */
  get oneIn(): number {
    return Math.max(...this.#highest);
  }

  /**
   * The number of hits to count a request as; 0: it is not in the sample.
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

  /** Counts a request which has the hit that is next, and maybe hits of the blocks behind it. */
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

  /** @param left  hits of the current block that are still to come: none of them is counted */
  #finishBlock(left: number): void {
    if (this.#load >= EXACT) while (this.#load >= SAMPLED * this.#oneIn) this.#oneIn *= 2;
    this.#highest[0] = this.#oneIn;
    this.#startBlock(left);
  }

  /** @param gap  hits before the block; below 0: of the block, that have come */
  #startBlock(gap: number): void {
    const place = Math.floor(this.#random() * this.#oneIn);
    this.#skips = gap + place;
    this.#rest = this.#oneIn - 1 - place;
  }
}
