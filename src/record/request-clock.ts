import type { Clock } from '../clock.ts';

/** A clock that stands still while a request is decided, so that all of it has one time: the one that is recorded. */
export class RequestClock {
  readonly #clock: Clock;
  #heldMs: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  readonly read: Clock = () => this.#heldMs ?? this.#clock();

  /** Runs what decides a request; the clock goes on when it returns. */
  during<T>(run: () => T): T {
    this.#heldMs = this.#clock();
    try {
      return run();
    } finally {
      this.#heldMs = undefined;
    }
  }
}
