import { setTimeout as sleep } from 'node:timers/promises';
import type { BackendHealth } from './backend.ts';

/** The result of a call with a time limit. */
type Timed<T> = { readonly value: T } | { readonly reason: string };

/**
 * Waits for a reply, at most `timeoutMs`. When the timer fires, it waits for one more `setImmediate`: on a busy core
 * the reply may already be in the socket, and timers run before sockets in a turn of the event loop.
 */
export function within<T>(timeoutMs: number, reply: Promise<T>): Promise<Timed<T>> {
  return new Promise((resolve) => {
    const timer = setTimeout(
      () => setImmediate(() => resolve({ reason: `no reply within ${timeoutMs} ms` })),
      timeoutMs,
    );
    const settle = (outcome: Timed<T>): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
    reply.then(
      (value) => settle({ value }),
      (error: unknown) => settle({ reason: error instanceof Error ? error.message : String(error) }),
    );
  });
}

/** How long a start waits for the store, so that the first answers are not failures. */
const START_WAIT_MS = 1_000;
const POLL_MS = 5;

/** Waits briefly until the store can be reached. */
export async function awaitReady(store: { health(): BackendHealth }, maxMs = START_WAIT_MS): Promise<void> {
  for (let waitedMs = 0; !store.health().ready && waitedMs < maxMs; waitedMs += POLL_MS) await sleep(POLL_MS);
}
