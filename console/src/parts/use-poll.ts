import { useEffect, useState } from 'preact/hooks';
import { ApiError } from '../api.ts';

export interface Polled<T> {
  readonly data: T | undefined;
  readonly error: ApiError | undefined;
  /** Sends the request again at once. */
  readonly refresh: () => void;
}

/**
 * Sends a request now, and again `intervalMs` after each answer while the page is visible.
 *
 * @param inputs  values that the request depends on; undefined: no requests
 */
export function usePoll<T>(
  request: () => Promise<T>,
  inputs: readonly unknown[] | undefined,
  intervalMs?: number,
): Polled<T> {
  const [state, setState] = useState<{ readonly data?: T; readonly error?: ApiError; readonly of?: string }>({});
  const [turn, setTurn] = useState(0);
  const of = inputs && JSON.stringify(inputs);
  useEffect(() => {
    if (of === undefined) return;
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async (): Promise<void> => {
      try {
        const data = document.hidden ? undefined : await request();
        if (!isOver && data !== undefined) setState({ data, of });
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (!isOver)
          setState((before) => ({
            ...(before.of === of && before.data !== undefined && { data: before.data }),
            error,
            of,
          }));
      }
      if (!isOver && intervalMs !== undefined) timer = setTimeout(run, intervalMs);
    };
    void run();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [of, turn, intervalMs]);
  const isCurrent = state.of === of;
  return {
    data: isCurrent ? state.data : undefined,
    error: isCurrent ? state.error : undefined,
    refresh: () => setTurn((before) => before + 1),
  };
}
