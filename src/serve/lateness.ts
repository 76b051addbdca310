import type { Monotonic } from '../clock.ts';
import type { Logger } from '../observe/log.ts';
import type { Part } from './parts.ts';

/** How late the timers of this process come: it has more to do than it can, or is not given the processor. */
export interface LatenessWatch extends Part {
  /** The latest that a timer of the last 50 milliseconds was, or is now. */
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

/** How long it is not logged again that this process is late. */
const REPEAT_MS = 60_000;

/** Logs that calls timed out since this process was late: the first time, and once a minute while it goes on. */
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
      `this process is ${Math.round(latenessMs())} ms late: calls to the store run out of STORE_TIMEOUT (${timeoutMs} ms) though the store may be well; give it more CPU, or more time. Not logged again for a minute`,
    );
  };
}
