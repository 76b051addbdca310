import type { Monotonic } from '../clock.ts';

/** Interval between log lines for the same key. */
const REPEAT_MS = 60_000;
/** Maximum number of remembered keys: Redis has a few dozen reasons to refuse. */
const MAX_KEYS = 100;

/** Logs at once, then once a minute for each key. */
export function createSeldomLog(monotonicMs: Monotonic): (key: string, log: () => void) => void {
  const loggedAtMs = new Map<string, number>();
  return (key, log) => {
    const nowMs = monotonicMs();
    if (nowMs - (loggedAtMs.get(key) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
    if (loggedAtMs.size >= MAX_KEYS) loggedAtMs.clear();
    loggedAtMs.set(key, nowMs);
    log();
  };
}
