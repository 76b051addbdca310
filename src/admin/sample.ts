/** Of ten seconds, counted each. */
const COUNTED = 20_000;
/** Of those beyond, one in so many is counted, as so many. */
export const SAMPLED = 16;

/** Bounds the work of counting at high rates, where it would cost as much as deciding. */
export class Sample {
  #seen = 0;
  #random = 1;

  /** What the next one counts as; 0: it is not in the sample. */
  weight(): number {
    if (++this.#seen <= COUNTED) return 1;
    this.#random ^= this.#random << 13; // Marsaglia's xorshift, https://doi.org/10.18637/jss.v008.i14
    this.#random ^= this.#random >>> 17;
    this.#random ^= this.#random << 5;
    return this.#random % SAMPLED === 0 ? SAMPLED : 0;
  }

  /** To be called every ten seconds. */
  rotate(): void {
    this.#seen = 0;
  }
}
