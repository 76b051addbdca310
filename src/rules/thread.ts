import { parentPort, Worker, workerData } from 'node:worker_threads';

/** A thread that does jobs one after another, away from the event loop of this one. */
export interface Thread<J, R> {
  /** Rejects where the thread fails; the next job is given to another one. */
  do(job: J): Promise<R>;
  close(): void;
}

/** A thread that has had nothing to do for so long ends: it holds some 10 MB. */
const IDLE_MS = 60_000;

/**
 * V8's young generation in such a thread, in MiB: two halves of 1 and what is beside them. Collections are short then;
 * those of 16 MiB take all processors for milliseconds, and no sleep can interrupt one.
 */
const YOUNG_GENERATION_MIB = 3;

interface Pending<R> {
  resolve(result: R): void;
  reject(error: Error): void;
}

/**
 * @param entry  the module that the thread runs: it calls `serveThread`
 * @param data   what the module takes as options
 */
export function openThread<J, R>(entry: URL, data: unknown): Thread<J, R> {
  let worker: Worker | undefined;
  let pending: Pending<R> | undefined;
  let last: Promise<unknown> = Promise.resolve();
  let idle: NodeJS.Timeout | undefined;
  let isClosed = false;

  const start = (): Worker => {
    const started = new Worker(entry, {
      workerData: data,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MIB },
    });
    const failed = (error: Error): void => {
      if (worker !== started) return; // it was ended
      worker = undefined;
      pending?.reject(error);
    };
    started.on('message', (result: R) => pending?.resolve(result));
    started.on('error', failed).on('exit', (code) => failed(new Error(`the thread ended with exit code ${code}`)));
    started.unref(); // it keeps no process from ending
    return started;
  };
  const end = (): void => {
    clearTimeout(idle);
    void worker?.terminate();
    worker = undefined;
    pending?.reject(new Error('the thread was closed'));
  };
  const run = async (job: J): Promise<R> => {
    clearTimeout(idle);
    if (isClosed) throw new Error('the thread was closed');
    worker ??= start();
    const current = worker;
    try {
      return await new Promise<R>((resolve, reject) => {
        pending = { resolve, reject };
        current.postMessage(job);
      });
    } finally {
      pending = undefined;
      idle = setTimeout(end, IDLE_MS).unref();
    }
  };

  return {
    do(job) {
      const done = last.then(() => run(job));
      last = done.catch(() => {});
      return done;
    },
    close() {
      isClosed = true;
      end();
    },
  };
}

/** Does the jobs of this thread. */
export function serveThread<O, J, R>(open: (options: O) => (job: J) => R): void {
  const doJob = open(workerData as O); // as `openThread` was given it
  parentPort?.on('message', (job: J) => parentPort?.postMessage(doJob(job)));
}
