import type { BulkJobOptions, Job, Queue, Worker, WorkerOptions } from 'bullmq';
import type { Client } from '../client.ts';
import type { Key } from '../middleware/options.ts';
import type { OnError } from '../options.ts';
import type { OpenTelemetryApi } from '../telemetry.ts';

/** Options that a queue and its workers must share. `D` is the data of a job. */
export interface LineOptions<D> {
  /** The domain of the rules. */
  readonly domain: string;
  /**
   * Returns the descriptors that count a job, or undefined if it is not limited; jobs with the same key form a line. It
   * must depend only on the data, and be the same for the queue and its workers.
   */
  readonly key: (data: D) => Key;
}

/** A job to add. */
export interface DeferredJob<D> {
  readonly name: string;
  readonly data: D;
  /** BullMQ's options. With `delay`, a job joins its line when its delay ends. */
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
  /** The maximum random time added to the wait of a key; never more than a tenth of the wait. Default: 1,000. */
  readonly jitterMs?: number;
  /** Older jobs fail at their turn, or as soon as that turn would come too late. Default: no limit. */
  readonly maxAgeMs?: number;
  /** A job with more refusals fails. Default: no limit. */
  readonly maxRefusals?: number;
  /** How long to wait for an answer from the service. Default: 1,000. */
  readonly timeoutMs?: number;
  /** The decision without an answer. Default: `deny`: the key waits for a second. */
  readonly onError?: OnError;
  /** How often lines are checked for a head left behind by a killed process. Default: 5,000. */
  readonly checkIntervalMs?: number;
  /** The module `@opentelemetry/api`, for the metrics `weir.client.deferral` and `weir.client.deferral.wait`. */
  readonly opentelemetry?: OpenTelemetryApi;
}

/** Counts since the worker was created. */
export interface DeferralStats {
  /** Started jobs, including repeated starts. */
  readonly started: number;
  /** Of these, jobs whose worker had died or lost its lock. */
  readonly restarted: number;
  readonly completed: number;
  /** Runs that threw; BullMQ retries the job. */
  readonly failed: number;
  /** Jobs that will not be retried: BullMQ's failed jobs. */
  readonly deadLettered: number;
  /** Refusals, each of which delayed a key. */
  readonly refused: number;
  /** Calls of the service without an answer. */
  readonly unanswered: number;
  /** Lines that continued because of a check (`checkIntervalMs`). */
  readonly recovered: number;
}

/** A worker that starts jobs when Weir admits them. */
export interface DeferredWorker<D, R> {
  /** BullMQ's worker, for its events. */
  readonly worker: Worker<D, R, string>;
  stats(): DeferralStats;
  /** Resolves when the running jobs have ended. */
  close(): Promise<void>;
}
