import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 25;
const TIMEOUT_MS = 150_000;

/**
 * Resolves when `holds` does; an error means that it does not hold yet.
 *
 * @param what  the condition, for the error message
 */
export async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + TIMEOUT_MS;
  while (!(await holds().catch(() => false))) {
    if (performance.now() > endMs) throw new Error(`${what} must happen within ${TIMEOUT_MS} ms`);
    await sleep(POLL_MS);
  }
}
