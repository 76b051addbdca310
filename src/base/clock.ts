import { performance } from 'node:perf_hooks'; // the global is a getter, which is slow

/** Milliseconds since the Unix epoch, an integer. Injected wherever time matters, so that tests replay schedules. */
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

/** A task that repeats while there is work, and costs nothing otherwise. */
export interface Intermittent {
  /** Starts the repetition unless it is running. Cheap enough to call for each request. */
  wake(): void;
  readonly isAwake: boolean;
  /** Ends the repetition permanently. */
  close(): void;
}

/**
 * @param task  returns whether to run again; otherwise it sleeps until `wake`
 */
export function intermittent(intervalMs: number, task: () => boolean): Intermittent {
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;
  const sleep = (): void => {
    clearInterval(timer);
    timer = undefined;
  };
  const run = (): void => {
    if (!task()) sleep();
  };
  return {
    wake() {
      if (timer === undefined && !isClosed) timer = setInterval(run, intervalMs).unref();
    },
    get isAwake() {
      return timer !== undefined;
    },
    close() {
      isClosed = true;
      sleep();
    },
  };
}
