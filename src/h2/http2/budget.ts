/**
 * A token bucket for overhead: control frames, and the streams that a control frame touches. It refills over time, and
 * with each complete request, since legitimate clients send a few control frames per request. The clock is read only
 * when the bucket is empty.
 */
export class Budget {
  readonly #capacity: number;
  readonly #perMs: number;
  #left: number;
  #filledAtMs = performance.now();

  constructor(capacity: number, perSecond: number) {
    this.#capacity = capacity;
    this.#perMs = perSecond / 1_000;
    this.#left = capacity;
  }

  /** @returns false if the bucket is empty */
  spend(): boolean {
    if (--this.#left >= 0) return true;
    const nowMs = performance.now();
    this.refill(Math.floor((nowMs - this.#filledAtMs) * this.#perMs));
    this.#filledAtMs = nowMs;
    return this.#left >= 0;
  }

  refill(tokens: number): void {
    this.#left = Math.min(this.#left + tokens, this.#capacity);
  }
}
