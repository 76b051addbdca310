import { setTimeout as sleep } from 'node:timers/promises';

const POLL_INTERVAL_MS = 5;
/** Longer than any wait takes on a busy machine, and shorter than the time limit of a test, which names no reason. */
const TIMEOUT_MS = 100_000;

/**
 * Waits until the condition holds.
 *
 * @throws Error  the condition does not hold within `withinMs`; `what` names it in the message
 */
export const until = (what: string, condition: () => boolean | Promise<boolean>, withinMs?: number): Promise<void> =>
  eventually(condition, () => what, withinMs);

/**
 * As `until`, for a condition whose source text, or the state it is about, says more than a name.
 *
 * @param describe  called when the time is over
 */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  describe = (): string => String(condition),
  withinMs = TIMEOUT_MS,
): Promise<void> {
  const endMs = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > endMs) throw new Error(`${describe()}: not within ${withinMs} ms`);
    await sleep(POLL_INTERVAL_MS);
  }
}
