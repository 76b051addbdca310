/**
 * Shares one rendering between concurrent requests. Requests that arrive while one is running share the next one, so
 * that a page contains everything counted before it was requested.
 */
export function shareRendering<T>(render: () => Promise<T>): () => Promise<T> {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  const begin = (): Promise<T> => {
    next = undefined;
    const rendering = render();
    running = rendering;
    return rendering;
  };
  return () => {
    next ??= running.then(begin, begin);
    return next;
  };
}
