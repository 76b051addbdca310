import type { Monotonic } from '../../base/clock.ts';
import { intermittent } from '../../base/intermittent.ts';

/** Measures how late the timers of this process are while calls to a store are in flight. */
export interface Lateness {
  /** A call begins. */
  began(): void;
  /** A call has ended, with any result. */
  ended(): void;
  /** The largest lag of the last 50 milliseconds; 0 while no call is in flight. */
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

/** Measures the timer lag of this process, which grows under overload or CPU starvation. */
export interface LatenessWatch extends Lateness {
  close(): void;
}

const INTERVAL_MS = 10;
const TICKS = 5;

/** The timer stops while no call to the store is in flight: lag before a call does not affect its time limit. */
export function watchLateness(monotonicMs: Monotonic): LatenessWatch {
  const late: number[] = new Array(TICKS).fill(0);
  let tick = 0;
  let mostMs = 0;
  let dueMs = 0;
  let calls = 0;
  let stoodMs = 0;
  const lagMs = (nowMs: number): number => (timer.isAwake ? Math.max(nowMs - dueMs, 0) : 0);
  const timer = intermittent(INTERVAL_MS, () => {
    const nowMs = monotonicMs();
    const lateMs = lagMs(nowMs);
    late[tick++ % TICKS] = lateMs;
    mostMs = Math.max(...late);
    stoodMs += Math.floor(lateMs); // a whole number is stored in each request without an allocation
    dueMs = nowMs + INTERVAL_MS;
    return calls > 0;
  });
  return {
    began() {
      calls++;
      if (timer.isAwake) return;
      late.fill(0);
      mostMs = 0;
      dueMs = monotonicMs() + INTERVAL_MS;
      timer.wake();
    },
    ended() {
      calls--;
    },
    latenessMs: () => (timer.isAwake ? mostMs : 0), // timers fire before requests are read
    get stoodMs() {
      return stoodMs;
    },
    stoodAtMs: (nowMs) => stoodMs + lagMs(nowMs),
    close: () => timer.close(),
  };
}
