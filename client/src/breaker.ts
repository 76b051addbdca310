import type { BreakerOptions } from './options.ts';

const DEFAULT_FAILURES = 10;
const DEFAULT_MIN_OPEN_MS = 100;
const DEFAULT_MAX_OPEN_MS = 1_000;

/** `open`: no calls are sent to the server; `half_open`: one trial call may be sent. */
export type BreakerState = 'closed' | 'open' | 'half_open';

/**
 * Stops calls to a failing server: opens after a number of consecutive failures, for a time that doubles; then one
 * trial call is sent. The time is shortened at random by up to half, so that clients do not return at once.
 */
export class Breaker {
  readonly #failures: number;
  readonly #minOpenMs: number;
  readonly #maxOpenMs: number;
  readonly #now: () => number;
  #consecutive = 0;
  /** How many times it has opened in a row. */
  #opened = 0;
  #openUntilMs: number | undefined;
  #isOnTrial = false;

  constructor({ failures, minOpenMs, maxOpenMs }: BreakerOptions, now: () => number) {
    this.#failures = failures ?? DEFAULT_FAILURES;
    this.#minOpenMs = minOpenMs ?? DEFAULT_MIN_OPEN_MS;
    this.#maxOpenMs = maxOpenMs ?? DEFAULT_MAX_OPEN_MS;
    this.#now = now;
  }

  get state(): BreakerState {
    if (this.#openUntilMs === undefined) return 'closed';
    return this.#isOnTrial || this.#now() >= this.#openUntilMs ? 'half_open' : 'open';
  }

  /** Whether a call may be sent now. */
  get admits(): boolean {
    return this.#openUntilMs === undefined || (!this.#isOnTrial && this.#now() >= this.#openUntilMs);
  }

  /** A call is sent; while half open, it is the trial. */
  begin(): void {
    if (this.#openUntilMs !== undefined) this.#isOnTrial = true;
  }

  succeeded(): void {
    this.#consecutive = 0;
    this.#opened = 0;
    this.#openUntilMs = undefined;
    this.#isOnTrial = false;
  }

  failed(): void {
    this.#consecutive++;
    const isTrial = this.#isOnTrial;
    if (!isTrial && (this.#openUntilMs !== undefined || this.#consecutive < this.#failures)) return;
    this.#isOnTrial = false;
    const openMs = Math.min(this.#minOpenMs * 2 ** this.#opened, this.#maxOpenMs);
    this.#opened = Math.min(this.#opened + 1, 30);
    this.#openUntilMs = this.#now() + openMs * (1 - Math.random() / 2);
  }

  /** The trial ended without a result, since its caller gave up. */
  abandoned(): void {
    this.#isOnTrial = false;
  }
}
