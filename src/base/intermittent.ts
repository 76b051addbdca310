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
