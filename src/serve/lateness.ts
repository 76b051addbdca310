import type { Monotonic } from '../clock.ts';
import type { Part } from './parts.ts';

/** Measures the timer lag of this process, which grows under overload or CPU starvation. */
export interface LatenessWatch extends Part {
  /** The largest lag of the last 50 milliseconds. */
  latenessMs(): number;
}

const INTERVAL_MS = 10;
const TICKS = 5;

export function watchLateness(monotonicMs: Monotonic): LatenessWatch {
  const late: number[] = new Array(TICKS).fill(0);
  let tick = 0;
  let dueMs = monotonicMs() + INTERVAL_MS;
  const timer = setInterval(() => {
    const nowMs = monotonicMs();
    late[tick++ % TICKS] = Math.max(nowMs - dueMs, 0);
    dueMs = nowMs + INTERVAL_MS;
  }, INTERVAL_MS).unref();
  return {
    latenessMs: () => Math.max(...late, monotonicMs() - dueMs),
    close: () => clearInterval(timer),
  };
}
