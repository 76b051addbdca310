/** What became of a call that was given a time limit. */
export type Outcome<T> = { readonly value: T } | { readonly reason: string };

/**
 * Waits for a reply, at most `timeoutMs`. When the timer fires, looks once more after a `setImmediate`: on a busy core
 * the reply may already lie in the socket, and timers come before sockets in a turn of the event loop.
 */
export function within<T>(timeoutMs: number, reply: Promise<T>): Promise<Outcome<T>> {
  return new Promise((resolve) => {
    const timer = setTimeout(
      () => setImmediate(() => resolve({ reason: `no reply within ${timeoutMs} ms` })),
      timeoutMs,
    );
    const settle = (outcome: Outcome<T>): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
    reply.then(
      (value) => settle({ value }),
      (error: unknown) => settle({ reason: error instanceof Error ? error.message : String(error) }),
    );
  });
}
