/**
 * Lets all who ask at the same time share one rendering, of which there is one at a time. Those who ask while one runs share the next, so that
 * all that was counted before they asked is in it.
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
