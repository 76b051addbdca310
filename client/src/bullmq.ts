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
 * Opens a queue of BullMQ whose jobs start in the order in which they were added, for each key.
 *
 * @param options  BullMQ's, and those of lines. Unless a job says otherwise, it has five attempts, with exponential
 * back-off.
 * @throws TypeError  an option is missing
 */
export function createDeferredQueue<D, R = unknown>(
  name: string,
  options: LineOptions<D> & QueueOptions,
): DeferredQueue<D, R> {
  return openDeferredQueue(name, options);
}

/**
 * Starts a worker of BullMQ that starts a job when Weir admits it. A job that is refused, and all later ones of its
 * key, wait until it could pass.
 *
 * @param run  what a job does; it is run again if it throws, or if its worker dies
 * @throws TypeError  an option is invalid
 */
export function createDeferredWorker<D, R = unknown>(
  name: string,
  run: Processor<D, R>,
  options: DeferredWorkerOptions<D>,
): DeferredWorker<D, R> {
  return openDeferredWorker(name, run, options, Date.now);
}
