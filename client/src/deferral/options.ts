import type { BulkJobOptions, Job, Queue, Worker, WorkerOptions } from 'bullmq';
import type { Client } from '../client.ts';
import type { Key } from '../middleware/options.ts';
import type { OnError } from '../options.ts';
import type { OpenTelemetryApi } from '../telemetry.ts';

/** What queues and workers must have in common. `D` is the data of a job. */
export interface LineOptions<D> {
  /** The domain of the rules. */
  readonly domain: string;
  /**
   * What a job is counted by; jobs with the same key form a line. Undefined: the job is not limited. It must depend on
   * the data alone, and be the same for the queue and its workers.
   */
  readonly key: (data: D) => Key;
}

/** A job to be added. */
export interface DeferredJob<D> {
  readonly name: string;
  readonly data: D;
  /** BullMQ's. With `delay`, a job arrives when its delay ends. */
  readonly opts?: BulkJobOptions;
}

/** A queue whose jobs start in the order in which they were added, for each key. */
export interface DeferredQueue<D, R> {
  /** BullMQ's queue, to read jobs, and to pause, clean or empty it. */
  readonly queue: Queue<D, R, string, D, R, string>;
  add(name: string, data: D, opts?: BulkJobOptions): Promise<Job<D, R, string>>;
  addBulk(jobs: readonly DeferredJob<D>[]): Promise<Job<D, R, string>[]>;
  close(): Promise<void>;
}

/** Options of `createDeferredWorker`. */
export interface DeferredWorkerOptions<D> extends LineOptions<D>, WorkerOptions {
  readonly client: Client;
  /** The hits of a job. Default: 1. */
  readonly cost?: (data: D) => number;
  /** The longest time that is added at random to the wait of a key; never more than a tenth of it. Default: 1,000. */
  readonly jitterMs?: number;
  /** Older jobs fail when their turn comes, or when it would come too late. Default: no limit. */
  readonly maxAgeMs?: number;
  /** A job that is refused more often fails. Default: no limit. */
  readonly maxRefusals?: number;
  /** How long to wait for an answer of the service. Default: 1,000. */
  readonly timeoutMs?: number;
  /** What decides without one. Default: `deny`: the key waits for a second. */
  readonly onError?: OnError;
  /** How often lines are checked for a head that a killed process has left behind. Default: 5,000. */
  readonly checkIntervalMs?: number;
  /** The module `@opentelemetry/api`, for the metrics `weir.client.deferral` and `weir.client.deferral.wait`. */
  readonly opentelemetry?: OpenTelemetryApi;
}

/** Counts since the worker was created. */
export interface DeferralStats {
  /** Jobs that were started, each time. */
  readonly started: number;
  /** Among them: jobs whose worker had died, or lost its lock. */
  readonly restarted: number;
  readonly completed: number;
  /** Runs that threw; BullMQ tries the job again. */
  readonly failed: number;
  /** Jobs that will not be tried again: BullMQ's failed jobs. */
  readonly deadLettered: number;
  /** Refusals, each of which delayed a key. */
  readonly refused: number;
  /** Questions without an answer. */
  readonly unanswered: number;
  /** Lines that went on because of a check (`checkIntervalMs`). */
  readonly recovered: number;
}

/** A worker that starts jobs when Weir admits them. */
export interface DeferredWorker<D, R> {
  /** BullMQ's worker, for its events. */
  readonly worker: Worker<D, R, string>;
  stats(): DeferralStats;
  /** Ends when the jobs that run have ended. */
  close(): Promise<void>;
}
