/**
 * A token bucket for work that brings no request nearer its answer: control frames, and the streams that such a frame touches. Time refills it, and so does
 * each complete request, since honest clients send a few such frames with each. The clock is read only when the bucket is empty.
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

  /** @returns false  the bucket is empty */
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
