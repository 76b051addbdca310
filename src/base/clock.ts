import { performance } from 'node:perf_hooks'; // the global is a getter, which is slow

/**
 * Milliseconds since the Unix epoch, an integer. Injected wherever time matters, so that tests can replay any schedule.
 */
export type Clock = () => number;

/** Milliseconds on a clock that never runs backwards, since an arbitrary moment. Injected like `Clock`. */
export type Monotonic = () => number;

/** The monotonic clock of this process. */
export const monotonicMs: Monotonic = () => performance.now();

/** Calls the function at this interval, until the returned one is called. Does not keep the process running. */
export function every(intervalMs: number, run: () => void): () => void {
  const timer = setInterval(run, intervalMs).unref();
  return () => clearInterval(timer);
}
