import type { Monotonic } from '../clock.ts';
import type { Logger } from '../observe/log.ts';
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

/** Interval between log lines. */
const REPEAT_MS = 60_000;

/** Logs that calls timed out because this process was late: at once, then once a minute. */
export function createLatenessLog(
  { latenessMs }: Pick<LatenessWatch, 'latenessMs'>,
  timeoutMs: number,
  monotonicMs: Monotonic,
  log: Pick<Logger, 'warn'>,
): () => void {
  let loggedAtMs = Number.NEGATIVE_INFINITY;
  return () => {
    const nowMs = monotonicMs();
    if (nowMs - loggedAtMs < REPEAT_MS) return;
    loggedAtMs = nowMs;
    log.warn(
      `this process is ${Math.round(latenessMs())} ms late: calls to the store exceed STORE_TIMEOUT (${timeoutMs} ms) although the store may be healthy; give the process more CPU, or raise the timeout. Not logged again for a minute`,
    );
  };
}
