/** A task that is repeated while there is something to do, and costs nothing otherwise. */
export interface Intermittent {
  /** Starts the repetition, unless it runs. Cheap enough to be called for each request. */
  wake(): void;
  readonly isAwake: boolean;
  /** Ends it for good. */
  close(): void;
}

/**
 * @param task  returns whether it is to run again; otherwise it sleeps until `wake`
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
