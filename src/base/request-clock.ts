import type { Clock } from './clock.ts';

/** A clock that stands still while a request is decided, so that the whole decision has one time, which is recorded. */
export class RequestClock {
  readonly #clock: Clock;
  #heldMs: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  readonly read: Clock = () => this.#heldMs ?? this.#clock();

  /** Runs a decision; the clock continues when it returns. */
  during<T>(run: () => T): T {
    this.#heldMs = this.#clock();
    try {
      return run();
    } finally {
      this.#heldMs = undefined;
    }
  }
}
