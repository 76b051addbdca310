import type { Monotonic } from '../../base/clock.ts';
import type { CircuitState } from '../../engine/open/open-backends.ts';

/** Consecutive failed calls before it opens. */
const FAILURES_TO_OPEN = 2;
/** Times that it stays open, doubled up to the longest, plus or minus a half. */
const FIRST_OPEN_MS = 50;
const LONGEST_OPEN_MS = 500;

/**
 * Circuit breaker. Fails calls to a node that does not answer, which would only wait, and be counted late. After a
 * while one call tests the node, and its result applies to all. The times vary between instances, so that they do not
 * all call a node simultaneously when it is back.
 *
 * @see https://martinfowler.com/bliki/CircuitBreaker.html
 */
export class Breaker {
  readonly #nowMs: Monotonic;
  readonly #random: () => number;
  #failures = 0;
  #timesOpened = 0;
  #openUntilMs = 0;
  #isProbing = false;
  #reason = '';

  constructor(nowMs: Monotonic, random: () => number = Math.random) {
    this.#nowMs = nowMs;
    this.#random = random;
  }

  get state(): CircuitState {
    if (this.#timesOpened === 0) return 'closed';
    return this.#isProbing || this.#nowMs() >= this.#openUntilMs ? 'half_open' : 'open';
  }

  /** Reason why no call may be made now, or undefined if one may. */
  get refusal(): string | undefined {
    if (this.#timesOpened === 0) return undefined;
    const isOpen = this.#isProbing || this.#nowMs() < this.#openUntilMs;
    return isOpen ? `the circuit is open: ${this.#reason}` : undefined;
  }

  /** Records that a call is made, which is the test if the circuit is half open. */
  began(): void {
    this.#isProbing = this.#timesOpened > 0;
  }

  /** Records a result that does not show the state of the node, so that the next call is the test. */
  inconclusive(): void {
    this.#isProbing = false;
  }

  succeeded(): void {
    this.#failures = 0;
    this.#timesOpened = 0;
    this.#isProbing = false;
  }

  /** @param reason  for messages */
  failed(reason: string): void {
    if (this.#timesOpened > 0 && !this.#isProbing) return; // the call was made before the circuit opened
    this.#reason = reason;
    this.#failures++;
    if (this.#failures < FAILURES_TO_OPEN && !this.#isProbing) return;
    const longMs = Math.min(FIRST_OPEN_MS * 2 ** this.#timesOpened, LONGEST_OPEN_MS);
    this.#openUntilMs = this.#nowMs() + longMs * (0.5 + this.#random());
    this.#timesOpened++;
    this.#isProbing = false;
  }
}
