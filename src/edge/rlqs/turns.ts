/** Assigns turns of the event loop one at a time: other work runs in between, however much work waits. */
export class Turns {
  /** In order of arrival. */
  readonly #waiting = new Map<object, () => void>();
  #turn: NodeJS.Immediate | undefined;

  /**
   * The code after it has a turn of the event loop to itself, until it waits for something else.
   *
   * @param asker  may wait for one turn at a time
   */
  next(asker: object): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.set(asker, resolve);
      this.#turn ??= setImmediate(this.#give);
    });
  }

  /** The asker has nothing left to do: its promise resolves at once, so that the objects it holds can be freed. */
  leave(asker: object): void {
    const resolve = this.#waiting.get(asker);
    this.#waiting.delete(asker);
    resolve?.();
  }

  readonly #give = (): void => {
    this.#turn = undefined;
    for (const [asker, resolve] of this.#waiting) {
      this.#waiting.delete(asker);
      resolve();
      break;
    }
    if (this.#waiting.size > 0) this.#turn = setImmediate(this.#give);
  };
}
