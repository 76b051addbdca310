import { atCheckpoints } from '../read/checkpoint.ts';

/** Approximate work between two sleeps: the current step is finished first. */
const MAX_WORK_MS = 0.25;
/** Milliseconds of sleep per millisecond of work. */
const SLEEP_RATIO = 2;
/** The longest single sleep, for example after work that could not be interrupted, such as garbage collection. */
const MAX_SLEEP_MS = 10;
/** The longest total sleep of a check or a comparison, which bounds the delay for the largest files. */
const MAX_TOTAL_SLEEP_MS = 10_000;

interface DutyCycleParts {
  /** Monotonic. */
  readonly nowMs: () => number;
  /** Blocks this process. */
  readonly sleep: (ms: number) => void;
}

/**
 * Limits a job's share of the processor. Without sleeps, a busy process may keep a processor for milliseconds at a time
 * while the processes that answer requests wait. Priorities do not help: containers and systemd may forbid
 * `setpriority`.
 */
class DutyCycle {
  readonly #parts: DutyCycleParts;
  #workSinceMs: number;
  #sleepLeftMs = MAX_TOTAL_SLEEP_MS;

  /** Begins a job. */
  constructor(parts: DutyCycleParts) {
    this.#parts = parts;
    this.#workSinceMs = parts.nowMs();
  }

  /** Sleeps if enough work has been done. */
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

/** Runs a job with sleeps in between, so that requests get processor time. */
export function besideRequests<R>(job: () => R, parts: DutyCycleParts = { nowMs: () => performance.now(), sleep }): R {
  const cycle = new DutyCycle(parts);
  const before = atCheckpoints(() => {
    before?.();
    cycle.checkpoint();
  });
  try {
    return job();
  } finally {
    atCheckpoints(before);
  }
}

const neverNotified = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));

function sleep(ms: number): void {
  Atomics.wait(neverNotified, 0, 0, ms);
}
