import type { Clock } from '../clock.ts';
import type { Logger } from '../observe/log.ts';

/** How long the same refusal is not logged again. */
const REPEAT_MS = 60_000;
/** Different refusals that are remembered: Redis has a few dozen. */
const MAX_REASONS = 100;

/** Logs why a server refuses calls: the first time, and once a minute while it goes on. */
export function createRefusalLog(description: string, clock: Clock, log: Logger): (reason: string) => void {
  const loggedAtMs = new Map<string, number>();
  return (reason) => {
    const nowMs = clock();
    if (nowMs - (loggedAtMs.get(reason) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
    if (loggedAtMs.size >= MAX_REASONS) loggedAtMs.clear();
    loggedAtMs.set(reason, nowMs);
    log.error(`${description} refuses calls: ${reason}; the same is not logged again for a minute`);
  };
}
