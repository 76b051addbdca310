/** How often it is looked how late timers come. */
const LOOK_INTERVAL_MS = 10;
/** So many times in a row they must be late: a single pause (a collection of garbage, say) says nothing. */
const TIMES = 3;

/** Tells whether this process keeps up. */
export interface EventLoopWatch {
  /** It has been late for several looks in a row. */
  isBehind(): boolean;
  close(): void;
}

/**
 * @param lateMs  how late timers come where it is behind: later than its callers wait; 0: it never is
 * @param nowMs   any clock that never runs backwards
 */
export function watchEventLoop(lateMs: number, nowMs: () => number = () => performance.now()): EventLoopWatch {
  let late = 0;
  let dueMs = nowMs() + LOOK_INTERVAL_MS;
  const timer = setInterval(() => {
    const atMs = nowMs();
    late = atMs - dueMs > lateMs ? late + 1 : 0;
    dueMs = atMs + LOOK_INTERVAL_MS;
  }, LOOK_INTERVAL_MS).unref();
  return { isBehind: () => lateMs > 0 && late >= TIMES, close: () => clearInterval(timer) };
}
