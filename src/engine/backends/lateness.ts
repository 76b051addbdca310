import type { Monotonic } from '../../base/clock.ts';
import { TimerLag } from '../../base/timer-lag.ts';

/** Measures how late the timers of this process are while calls to a store are in flight. */
export interface Lateness {
  /** Records the start of a call. */
  began(): void;
  /** Records the end of a call, with any result. */
  ended(): void;
  /** Maximum lag in the last 50 milliseconds; 0 while no call is in flight. */
  latenessMs(): number;
  /** How long this process has not run while calls were in flight, since its start; whole milliseconds. */
  readonly stoodMs: number;
  /** The same, with what its timers are late at this time. */
  stoodAtMs(nowMs: number): number;
}

/** Never late. */
export const PUNCTUAL: Lateness = {
  began: () => {},
  ended: () => {},
  latenessMs: () => 0,
  stoodMs: 0,
  stoodAtMs: () => 0,
};

/** Begins to measure a call. @returns ends it, and returns its duration in milliseconds */
export type Stopwatch = () => () => number;

/** Measures calls to a store, without the time for which this process did not run if that was most of a call. */
export const createStopwatch =
  (monotonicMs: Monotonic, lateness: Pick<Lateness, 'stoodAtMs'>): Stopwatch =>
  () => {
    const begunMs = monotonicMs();
    const stoodBeforeMs = lateness.stoodAtMs(begunMs);
    return () => {
      const nowMs = monotonicMs();
      const elapsedMs = nowMs - begunMs;
      const stoodMs = lateness.stoodAtMs(nowMs) - stoodBeforeMs;
      return 2 * stoodMs > elapsedMs ? Math.max(elapsedMs - stoodMs, 0) : elapsedMs; // the store works meanwhile
    };
  };

/** The timer stops while no call to the store is in flight, since lag before a call does not affect its time limit. */
export function watchLateness(monotonicMs: Monotonic): Lateness & { close(): void } {
  let calls = 0;
  const lag = new TimerLag({ intervalMs: 10, measurements: 5, monotonicMs, isNeeded: () => calls > 0 });
  return {
    began() {
      calls++;
      lag.wake();
    },
    ended() {
      calls--;
    },
    latenessMs: () => lag.maxMs(), // timers fire before requests are read
    get stoodMs() {
      return lag.stoodMs;
    },
    stoodAtMs: (nowMs) => lag.stoodAtMs(nowMs),
    close: () => lag.close(),
  };
}
