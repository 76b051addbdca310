/** How often it is looked how late timers come. */
const LOOK_INTERVAL_MS = 10;
/** So many times in a row they must be late: a single pause (a collection of garbage, say) says nothing. */
const TIMES = 3;
/** While they are, the share of calls that are taken shrinks by this factor each time; the least that it shrinks to. */
const SHRINK = 0.7;
const LEAST = 0.01;
/** While they are not, it grows by so much each time: from nothing to all in half a second. */
const GROW = 0.02;

/** Tells how much this process can take on, by whether it keeps up. */
export interface EventLoopWatch {
  /** Of all calls the share that can be answered in time; 1: all. */
  share(): number;
  close(): void;
}

/**
 * The share grows evenly and shrinks by a factor, so that it settles at what can be done (AIMD).
 *
 * @param lateMs  how late timers come where this process does not keep up: as late as its callers give up; 0: all calls are taken whatever
 * @param nowMs   any clock that never runs backwards
 * @see https://doi.org/10.1016/0169-7552(89)90019-6  Chiu and Jain, on additive increase and multiplicative decrease
 */
export function watchEventLoop(lateMs: number, nowMs: () => number = () => performance.now()): EventLoopWatch {
  let share = 1;
  let late = 0;
  let dueMs = nowMs() + LOOK_INTERVAL_MS;
  const timer = setInterval(() => {
    const atMs = nowMs();
    late = atMs - dueMs > lateMs ? late + 1 : 0;
    if (late === 0) share = Math.min(share + GROW, 1);
    else if (late >= TIMES) share = Math.max(share * SHRINK, LEAST);
    dueMs = atMs + LOOK_INTERVAL_MS;
  }, LOOK_INTERVAL_MS).unref();
  return { share: () => (lateMs > 0 ? share : 1), close: () => clearInterval(timer) };
}
