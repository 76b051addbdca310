/** An attempt to take slots that waits for its turn. */
export interface Try {
  /** The number of counters that it queries. */
  readonly counters: number;
  begin(): void;
}

/**
 * Why a try is made, the most urgent first.
 *
 * last   its caller has waited for as long as it may
 * woken  slots may have become free
 * poll   other instances may have released some
 */
const reasons = ['last', 'woken', 'poll'] as const;
type Reason = (typeof reasons)[number];

const PERIOD_MS = 10;
/** The most counters queried in a period: about a millisecond of work if they are in memory. */
export const COUNTERS_A_PERIOD = 256;

/**
 * Bounds the number of counters queried in a period for waiting callers. Tries beyond the bound wait, in order; one
 * poll goes first in each period, so that polls never starve.
 */
export class TryTurns {
  readonly #waiting: Readonly<Record<Reason, Set<Try>>> = { last: new Set(), woken: new Set(), poll: new Set() };
  #countersLeft = COUNTERS_A_PERIOD;
  #isPeriodOpen = false;
  #isServing = false;

  add(one: Try, reason: Reason): void {
    const { woken, poll } = this.#waiting;
    if (reason === 'poll' && woken.has(one)) return;
    if (reason === 'woken') poll.delete(one);
    this.#waiting[reason].add(one);
    if (this.#isServing || this.#countersLeft <= 0) return;
    this.#isServing = true;
    queueMicrotask(this.#serve); // once for all tries of this turn
  }

  drop(one: Try): void {
    for (const reason of reasons) this.#waiting[reason].delete(one);
  }

  readonly #serve = (): void => {
    this.#isServing = false;
    for (const reason of reasons)
      for (const one of this.#waiting[reason]) {
        if (this.#countersLeft <= 0) return;
        this.#begin(one, reason);
      }
  };

  #begin(one: Try, reason: Reason): void {
    this.#waiting[reason].delete(one);
    this.#countersLeft -= one.counters;
    this.#beginPeriod();
    one.begin();
  }

  /**
   * The timer starts in the next turn of the event loop: in a late process, many periods could otherwise end in one
   * turn.
   */
  #beginPeriod(): void {
    if (this.#isPeriodOpen) return;
    this.#isPeriodOpen = true;
    setImmediate(() => setTimeout(this.#renew, PERIOD_MS).unref()); // the open connection keeps the process alive
  }

  readonly #renew = (): void => {
    this.#isPeriodOpen = false;
    this.#countersLeft = COUNTERS_A_PERIOD;
    const [poll] = this.#waiting.poll;
    if (poll) this.#begin(poll, 'poll');
    this.#serve();
  };
}
