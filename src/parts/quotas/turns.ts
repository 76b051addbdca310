/** Assigns turns of the event loop one at a time, so that other work runs in between however much waits. */
export class Turns {
  /** Waiting askers in order of arrival. */
  readonly #waiting = new Map<object, () => void>();
  #turn: NodeJS.Immediate | undefined;

  /**
   * Resolves in a turn of the event loop that the caller has to itself, until it waits for something else.
   *
   * @param asker  may wait for one turn at a time
   */
  next(asker: object): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.set(asker, resolve);
      this.#turn ??= setImmediate(this.#give);
    });
  }

  /** Resolves the promise of an asker that has nothing left to do, so that the objects it holds can be freed. */
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
