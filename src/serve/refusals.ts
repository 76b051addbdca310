import type { Clock } from '../clock.ts';
import type { Logger } from '../observe/log.ts';

/** Interval between log lines of the same refusal. */
const REPEAT_MS = 60_000;
/** Maximum number of remembered refusals: Redis has a few dozen. */
const MAX_REASONS = 100;

/** Logs why a server refuses calls: at once, then once a minute. */
export function createRefusalLog(description: string, clock: Clock, log: Logger): (reason: string) => void {
  const loggedAtMs = new Map<string, number>();
  return (reason) => {
    const nowMs = clock();
    if (nowMs - (loggedAtMs.get(reason) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
    if (loggedAtMs.size >= MAX_REASONS) loggedAtMs.clear();
    loggedAtMs.set(reason, nowMs);
    log.error(`${description} refuses calls: ${reason}; not logged again for a minute`);
  };
}
