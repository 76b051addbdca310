import { type Monotonic, monotonicMs } from '../clock.ts';
import { intermittent } from '../intermittent.ts';

/** How often timer lag is measured. */
const CHECK_INTERVAL_MS = 10;
/** Consecutive late checks before calls are refused: a single pause, such as a garbage collection, does not count. */
const MIN_LATE_CHECKS = 3;
/** While late, the admitted share shrinks by this factor per check, down to a minimum. */
const DECREASE_FACTOR = 0.7;
const MIN_SHARE = 0.01;
/** While on time, it grows by this much per check: from none to all calls in half a second. */
const INCREASE = 0.02;

/** Estimates the share of calls that this process can answer in time. */
export interface EventLoopWatch {
  /** A call has arrived: timer lag is measured from now on, until no call is in flight. */
  wake(): void;
  /** 0 to 1; 1: all calls. */
  share(): number;
  close(): void;
}

export interface EventLoopWatchOptions {
  /**
   * Timer lag that counts as late: at which callers would time out; 0: every call is admitted, and nothing is measured.
   */
  readonly lateMs: number;
  /** Whether calls are in flight. The watch sleeps if none are, none has arrived recently, and the share is 1. */
  readonly isBusy: () => boolean;
  readonly nowMs?: Monotonic;
}

/**
 * Additive increase, multiplicative decrease (AIMD): the share settles at what the process can handle.
 *
 * @see https://doi.org/10.1016/0169-7552(89)90019-6  Chiu and Jain, on additive increase and multiplicative decrease
 */
export function watchEventLoop({ lateMs, isBusy, nowMs = monotonicMs }: EventLoopWatchOptions): EventLoopWatch {
  let share = 1;
  let late = 0;
  let dueMs = 0;
  let isNeeded = false;
  const timer = intermittent(CHECK_INTERVAL_MS, () => {
    const atMs = nowMs();
    late = atMs - dueMs > lateMs ? late + 1 : 0;
    if (late === 0) share = Math.min(share + INCREASE, 1);
    else if (late >= MIN_LATE_CHECKS) share = Math.max(share * DECREASE_FACTOR, MIN_SHARE);
    dueMs = atMs + CHECK_INTERVAL_MS;
    const isResting = !isNeeded && late === 0 && share === 1 && !isBusy();
    isNeeded = false;
    return !isResting;
  });
  return {
    wake() {
      isNeeded = true;
      if (timer.isAwake || lateMs === 0) return;
      dueMs = nowMs() + CHECK_INTERVAL_MS;
      timer.wake();
    },
    share: () => share,
    close: () => timer.close(),
  };
}
