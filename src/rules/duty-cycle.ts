import { atCheckpoints } from './checkpoint.ts';

/** Work between two sleeps, about: a step is finished first. */
export const MAX_WORK_MS = 0.5;
/** Sleep for each millisecond of work. */
export const SLEEP_RATIO = 2;
/** A single sleep, after work that could not be interrupted, as a collection of garbage. */
export const MAX_SLEEP_MS = 10;
/** All sleeps of a check or of a comparison: the largest files take so much longer at most. */
export const MAX_TOTAL_SLEEP_MS = 10_000;

export interface DutyCycleParts {
  /** Monotonic. */
  readonly nowMs: () => number;
  /** Blocks this thread. */
  readonly sleep: (ms: number) => void;
}

/**
 * Limits the share of a processor that a job takes: a thread that never stops for long is given a processor for
 * milliseconds on end, while those that answer requests wait for one. Threads have no priorities of their own here:
 * containers and systemd may forbid `setpriority`.
 */
export class DutyCycle {
  readonly #parts: DutyCycleParts;
  #workSinceMs: number;
  #sleepLeftMs = MAX_TOTAL_SLEEP_MS;

  /** Begins a job. */
  constructor(parts: DutyCycleParts = { nowMs: () => performance.now(), sleep }) {
    this.#parts = parts;
    this.#workSinceMs = parts.nowMs();
  }

  /** Sleeps if it is time to. */
  checkpoint(): void {
    const { nowMs, sleep } = this.#parts;
    const workedMs = nowMs() - this.#workSinceMs;
    if (workedMs < MAX_WORK_MS || this.#sleepLeftMs <= 0) return;
    const sleepMs = Math.min(workedMs * SLEEP_RATIO, MAX_SLEEP_MS, this.#sleepLeftMs);
    this.#sleepLeftMs -= sleepMs;
    sleep(sleepMs);
    this.#workSinceMs = nowMs();
  }
}

/** Does a job with sleeps in it, so that requests that this process answers meanwhile get processors. */
export function besideRequests<R>(job: () => R, parts?: DutyCycleParts): R {
  const cycle = new DutyCycle(parts);
  atCheckpoints(() => cycle.checkpoint());
  try {
    return job();
  } finally {
    atCheckpoints(undefined);
  }
}

const neverNotified = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));

function sleep(ms: number): void {
  Atomics.wait(neverNotified, 0, 0, ms);
}
