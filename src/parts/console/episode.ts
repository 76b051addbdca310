/** Without a refusal for this long, an episode of refusals has ended. */
const QUIET_MS = 300_000;

/** Knows since when refusals happen again and again. */
export class Episode {
  #sinceMs = 0;
  #lastMs = Number.NEGATIVE_INFINITY;

  /** It happens now. */
  note(nowMs: number): void {
    if (nowMs - this.#lastMs > QUIET_MS) this.#sinceMs = nowMs;
    this.#lastMs = nowMs;
  }

  get lastMs(): number {
    return this.#lastMs;
  }

  /** When it began, or undefined while there is none. */
  sinceMs(nowMs: number): number | undefined {
    return nowMs - this.#lastMs > QUIET_MS ? undefined : this.#sinceMs;
  }
}
