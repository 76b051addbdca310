import { setTimeout as sleep } from 'node:timers/promises';

const POLL_INTERVAL_MS = 5;
/** Nothing takes so long but on a machine that is busy. */
const TIMEOUT_MS = 30_000;

/**
 * Waits until the condition holds.
 *
 * @throws Error  it does not within `withinMs`; `what` says what was waited for
 */
export async function until(what: string, condition: () => boolean, withinMs = TIMEOUT_MS): Promise<void> {
  const endMs = performance.now() + withinMs;
  while (!condition()) {
    if (performance.now() > endMs) throw new Error(`${what}: not within ${withinMs} ms`);
    await sleep(POLL_INTERVAL_MS);
  }
}
