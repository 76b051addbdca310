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
