import { type Monotonic, monotonicMs } from '../../base/clock.ts';
import { intermittent } from '../../base/intermittent.ts';

/** The interval at which lateness is measured, and the measurements kept: as long as between two scrapes. */
const CHECK_MS = 1_000;
const CHECKS = 15;

/** By how much the timers of a process are late. */
interface TimerLag {
  /** A call has arrived. */
  wake(): void;
  /** The largest lag of the last 15 seconds; 0 without calls. */
  ms(): number;
  close(): void;
}

/** Measures with a timer that only runs while calls arrive or are in flight. */
export function watchTimerLag(isBusy: () => boolean, nowMs: Monotonic = monotonicMs): TimerLag {
  const late: number[] = new Array(CHECKS).fill(0);
  let checks = 0;
  let dueMs = 0;
  let hasCalls = false;
  const timer = intermittent(CHECK_MS, () => {
    const atMs = nowMs();
    late[checks++ % CHECKS] = Math.max(atMs - dueMs, 0);
    dueMs = atMs + CHECK_MS;
    const isNeeded = hasCalls || isBusy();
    hasCalls = false;
    return isNeeded;
  });
  return {
    wake() {
      hasCalls = true;
      if (timer.isAwake) return;
      late.fill(0);
      dueMs = nowMs() + CHECK_MS;
      timer.wake();
    },
    ms: () => (timer.isAwake ? Math.max(...late) : 0),
    close: () => timer.close(),
  };
}
