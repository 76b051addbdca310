/** Turns of the event loop, given out one after the other: however much work waits, other work runs in between. */
export class Turns {
  readonly #waiting: { readonly resolve: () => void; readonly isOver: () => boolean }[] = [];

  /**
   * What runs after it, until it waits for something else, has a turn of the event loop for itself.
   *
   * @param isOver  there is nothing left to do: it takes no turn, so that what it holds is free with the next one
   */
  next(isOver: () => boolean = () => false): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push({ resolve, isOver });
      if (this.#waiting.length === 1) setImmediate(this.#give);
    });
  }

  readonly #give = (): void => {
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      next.resolve();
      if (!next.isOver()) break;
    }
    if (this.#waiting.length > 0) setImmediate(this.#give);
  };
}
