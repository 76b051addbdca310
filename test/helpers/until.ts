import { setTimeout as sleep } from 'node:timers/promises';

const POLL_INTERVAL_MS = 5;
/** Longer than any wait takes, even on a busy machine. */
const TIMEOUT_MS = 30_000;

/**
 * Waits until the condition holds.
 *
 * @throws Error  the condition does not hold within `withinMs`; `what` names it in the message
 */
export async function until(what: string, condition: () => boolean, withinMs = TIMEOUT_MS): Promise<void> {
  const endMs = performance.now() + withinMs;
  while (!condition()) {
    if (performance.now() > endMs) throw new Error(`${what}: not within ${withinMs} ms`);
    await sleep(POLL_INTERVAL_MS);
  }
}
