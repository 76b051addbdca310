/** Without a refusal for this long, an episode of refusals has ended. */
const QUIET_MS = 300_000;

/** Knows since when something happens again and again. */
export class Episode {
  readonly #quietMs: number;
  #sinceMs = 0;
  #lastMs = Number.NEGATIVE_INFINITY;

  /** @param quietMs  without an event for this long, the episode has ended */
  constructor(quietMs = QUIET_MS) {
    this.#quietMs = quietMs;
  }

  /** It happens now. */
  note(nowMs: number): void {
    if (nowMs - this.#lastMs > this.#quietMs) this.#sinceMs = nowMs;
    this.#lastMs = nowMs;
  }

  get lastMs(): number {
    return this.#lastMs;
  }

  /** When it began, or undefined while there is none. */
  sinceMs(nowMs: number): number | undefined {
    return nowMs - this.#lastMs > this.#quietMs ? undefined : this.#sinceMs;
  }
}
