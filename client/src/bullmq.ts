import type { Processor, QueueOptions } from 'bullmq';
import type { DeferredQueue, DeferredWorker, DeferredWorkerOptions, LineOptions } from './deferral/options.ts';
import { openDeferredQueue } from './deferral/queue.ts';
import { openDeferredWorker } from './deferral/worker.ts';

export type {
  DeferralStats,
  DeferredJob,
  DeferredQueue,
  DeferredWorker,
  DeferredWorkerOptions,
  LineOptions,
} from './deferral/options.ts';

/**
 * Opens a BullMQ queue whose jobs start in the order in which they were added, for each key.
 *
 * @param options  BullMQ's, and those of lines. Unless a job has other options, it has five attempts, with exponential
 * back-off.
 * @throws TypeError  a required option is missing
 */
export function createDeferredQueue<D, R = unknown>(
  name: string,
  options: LineOptions<D> & QueueOptions,
): DeferredQueue<D, R> {
  return openDeferredQueue(name, options);
}

/**
 * Starts a BullMQ worker that starts a job when Weir admits it. A refused job, and all later jobs of its key, wait
 * until it could pass.
 *
 * @param run  processes a job; it is called again if it throws, or if its worker dies
 * @throws TypeError  an option is invalid
 */
export function createDeferredWorker<D, R = unknown>(
  name: string,
  run: Processor<D, R>,
  options: DeferredWorkerOptions<D>,
): DeferredWorker<D, R> {
  return openDeferredWorker(name, run, options, Date.now);
}
