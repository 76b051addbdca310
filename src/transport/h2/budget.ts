/**
 * A token bucket for frames that cost something and bring no request nearer its answer: it is refilled by time, and by the requests
 * that do get there, since honest clients send a few such frames with each. Time is only asked for when it has run dry.
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

  /** @returns false  there is nothing left to spend */
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
