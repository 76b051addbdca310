import { type Intermittent, intermittent, type Monotonic } from './clock.ts';

interface TimerLagOptions {
  readonly intervalMs: number;
  /** Number of measurements of which `maxMs` is the maximum. */
  readonly measurements: number;
  readonly monotonicMs: Monotonic;
  /** Returns whether to continue after a measurement; otherwise measuring stops until `wake`. */
  readonly isNeeded: () => boolean;
}

/** Measures how late the timers of this process are, which grows under overload or CPU starvation. */
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

  /** Starts measuring unless it is running. Earlier lag does not count. */
  wake(): void {
    if (this.#timer.isAwake) return;
    this.#recent.fill(0);
    this.#maxMs = 0;
    this.#dueMs = this.#monotonicMs() + this.#intervalMs;
    this.#timer.wake();
  }

  /** Maximum recent lag; 0 while nothing is measured. */
  maxMs(): number {
    return this.#timer.isAwake ? this.#maxMs : 0;
  }

  /** Time since the start for which this process was measured not to run, in whole milliseconds. */
  get stoodMs(): number {
    return this.#stoodMs;
  }

  /** The same, including the current lag of its timers. */
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
    this.#stoodMs += Math.floor(lagMs); // requests store whole numbers without an allocation
    this.#dueMs = nowMs + this.#intervalMs;
  }
}
