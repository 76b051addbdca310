/** Turns of the event loop, given out one after the other: however much work waits, other work runs in between. */
export class Turns {
  readonly #waiting: (() => void)[] = [];

  /** What runs after it, until it waits for something else, has a turn of the event loop for itself. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (this.#waiting.length === 1) setImmediate(this.#give);
    });
  }

  readonly #give = (): void => {
    const [resolve] = this.#waiting;
    resolve?.();
    this.#waiting.shift();
    if (this.#waiting.length > 0) setImmediate(this.#give);
  };
}
