import { WINDOW_SLOTS } from './rotating-top.ts';

/** Of ten seconds, counted each. */
const COUNTED = 20_000;
/** Once there are so many, one in 32 is counted, as 32. */
export const SAMPLED = 32;

/**
 * Bounds the work of counting at high rates, where it would cost as much as deciding. Once ten seconds have 20,000, one
 * of each 32 is counted, chosen at random, until ten seconds had fewer. So an estimate of n has a standard error below
 * 6·√n: each block of 32 with m of a kind adds m·(32 − m) to the variance, 31·m at most. Errors of several samples add
 * up in the same way.
 */
export class Sample {
  readonly #random: () => number;
  /** Sum of the weights in the current ten seconds. */
  #seen = 0;
  #isSampling = false;
  /** Requests to skip before the next one that is counted. */
  #skips = 0;
  /** Requests of the current block that follow the one that is counted. */
  #rest = 0;
  /** Slots of ten seconds until the last sampled count leaves the window. */
  #sampledSlots = 0;

  /** @param random  from 0 to below 1 */
  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** One request in this many was counted in the last minute; 1: every request. */
  get oneIn(): number {
    return this.#sampledSlots > 0 ? SAMPLED : 1;
  }

  /** Weight of the next request; 0: it is not in the sample. */
  weight(): number {
    if (this.#skips === 0) return this.#count();
    this.#skips--;
    return 0;
  }

  #count(): number {
    const weight = this.#isSampling ? SAMPLED : 1;
    if (this.#isSampling) this.#sampledSlots = WINDOW_SLOTS;
    this.#seen += weight;
    if (this.#seen >= COUNTED) this.#isSampling = true;
    if (this.#isSampling) {
      const place = Math.floor(this.#random() * SAMPLED);
      this.#skips = this.#rest + place;
      this.#rest = SAMPLED - 1 - place;
    }
    return weight;
  }

  /** To be called every ten seconds. */
  rotate(): void {
    this.#isSampling = this.#seen >= COUNTED;
    this.#seen = 0;
    if (this.#sampledSlots > 0) this.#sampledSlots--;
    if (this.#isSampling) return;
    this.#skips = 0;
    this.#rest = 0;
  }
}
