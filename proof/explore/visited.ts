/** How to explore from a state. Masks are of the slots of steps. */
interface Entered {
  readonly isNew: boolean;
  readonly asleep: number;
  /** All other steps were explored before. Undefined: none was. */
  readonly only: number | undefined;
}

const MIN_SLOTS = 1 << 16;
const MAX_LOAD = 0.6;

/**
 * States that were reached, by 64-bit hashes, in typed arrays with open addressing: 13 bytes for each slot. Keeps for
 * each state the number of steps that were explored from it, and the steps that were left out.
 */
export class Visited {
  size = 0;
  #mask = MIN_SLOTS - 1;
  #low = new Uint32Array(MIN_SLOTS);
  #high = new Uint32Array(MIN_SLOTS);
  #left = new Uint8Array(MIN_SLOTS);
  #asleep = new Uint32Array(MIN_SLOTS);

  /**
   * @param left    the number of steps to explore from the state
   * @param asleep  steps to leave out, as a mask of their slots
   * @returns undefined if there is nothing to explore that was not explored before
   */
  enter(low: number, high: number, left: number, asleep: number): Entered | undefined {
    const at = this.#find(low, high);
    const known = this.#left[at] ?? 0;
    const isNew = known === 0;
    if (left + 1 > known) {
      this.#put(at, low, high, left + 1, asleep);
      if (isNew && ++this.size > MAX_LOAD * (this.#mask + 1)) this.#grow();
      return { isNew, asleep, only: undefined };
    }
    const before = this.#asleep[at] ?? 0;
    const only = (before & ~asleep) >>> 0;
    if (only === 0) return undefined;
    if (left + 1 === known) this.#asleep[at] = before & asleep; // else what is kept holds for more steps
    return { isNew, asleep: (before & asleep) >>> 0, only };
  }

  #find(low: number, high: number): number {
    let at = (low ^ (high >>> 7)) & this.#mask;
    while (this.#left[at] !== 0 && (this.#low[at] !== low >>> 0 || this.#high[at] !== high >>> 0))
      at = (at + 1) & this.#mask;
    return at;
  }

  #put(at: number, low: number, high: number, left: number, asleep: number): void {
    this.#low[at] = low;
    this.#high[at] = high;
    this.#left[at] = left;
    this.#asleep[at] = asleep;
  }

  #grow(): void {
    const [lows, highs, lefts, asleep] = [this.#low, this.#high, this.#left, this.#asleep];
    const slots = 2 * lows.length;
    this.#mask = slots - 1;
    this.#low = new Uint32Array(slots);
    this.#high = new Uint32Array(slots);
    this.#left = new Uint8Array(slots);
    this.#asleep = new Uint32Array(slots);
    for (let at = 0; at < lows.length; at++) {
      const left = lefts[at] ?? 0;
      const [low = 0, high = 0] = [lows[at], highs[at]];
      if (left > 0) this.#put(this.#find(low, high), low, high, left, asleep[at] ?? 0);
    }
  }
}
