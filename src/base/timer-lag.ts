import { type Intermittent, intermittent, type Monotonic } from './clock.ts';

interface TimerLagOptions {
  /** The interval at which lag is measured. */
  readonly intervalMs: number;
  /** The number of measurements of which `maxMs` is the largest. */
  readonly measurements: number;
  readonly monotonicMs: Monotonic;
  /** Whether to go on, after each measurement; otherwise measuring stops until `wake`. */
  readonly isNeeded: () => boolean;
}

/** By how much the timers of this process are late, which grows under overload or CPU starvation. */
export class TimerLag {
  readonly #monotonicMs: Monotonic;
  readonly #intervalMs: number;
  readonly #recent: number[];
  #measured = 0;
  #maxMs = 0;
  #dueMs = 0;
  #stoodMs = 0;
  readonly #timer: Intermittent;

  constructor({ intervalMs, measurements, monotonicMs, isNeeded }: TimerLagOptions) {
    this.#monotonicMs = monotonicMs;
    this.#intervalMs = intervalMs;
    this.#recent = new Array(measurements).fill(0);
    this.#timer = intermittent(intervalMs, () => {
      this.#measure();
      return isNeeded();
    });
  }

  /** Starts measuring unless it is running; lag before that does not count. */
  wake(): void {
    if (this.#timer.isAwake) return;
    this.#recent.fill(0);
    this.#maxMs = 0;
    this.#dueMs = this.#monotonicMs() + this.#intervalMs;
    this.#timer.wake();
  }

  /** The largest recent lag; 0 while nothing is measured. */
  maxMs(): number {
    return this.#timer.isAwake ? this.#maxMs : 0;
  }

  /** How long this process has not run while lag was measured, since its start; whole milliseconds. */
  get stoodMs(): number {
    return this.#stoodMs;
  }

  /** The same, with what its timers are late at this time. */
  stoodAtMs(nowMs: number): number {
    return this.#stoodMs + this.#lagMs(nowMs);
  }

  close(): void {
    this.#timer.close();
  }

  #lagMs(nowMs: number): number {
    return this.#timer.isAwake ? Math.max(nowMs - this.#dueMs, 0) : 0;
  }

  #measure(): void {
    const nowMs = this.#monotonicMs();
    const lagMs = this.#lagMs(nowMs);
    this.#recent[this.#measured++ % this.#recent.length] = lagMs;
    this.#maxMs = Math.max(...this.#recent);
    this.#stoodMs += Math.floor(lagMs); // a whole number is stored in each request without an allocation
    this.#dueMs = nowMs + this.#intervalMs;
  }
}
