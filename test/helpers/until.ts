import { setTimeout as sleep } from 'node:timers/promises';

const POLL_INTERVAL_MS = 5;

/**
 * Waits until the condition holds.
 *
 * @throws Error  it does not within `withinMs`; `what` says what was waited for
 */
export async function until(what: string, condition: () => boolean, withinMs = 10_000): Promise<void> {
  const endMs = performance.now() + withinMs;
  while (!condition()) {
    if (performance.now() > endMs) throw new Error(`${what}: not within ${withinMs} ms`);
    await sleep(POLL_INTERVAL_MS);
  }
}
