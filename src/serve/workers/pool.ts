import cluster from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import { type AgentQuestion, type NamedReply, type ReplyTo, replyTo } from '../../admin/agent.ts';
import type { Logger } from '../../observe/log.ts';
import type { RuleBook } from '../../rules/book.ts';
import type { Listening, Report } from './messages.ts';
import { spawnWorker, type WorkerHandle } from './worker-handle.ts';

export interface PoolOptions {
  /** Number of workers. */
  readonly count: number;
  /** Closing workers are killed after this time. */
  readonly closeWithinMs: number;
  /** The rules in force, sent to each worker at its start and when they change. */
  readonly rules: Pick<RuleBook, 'packed' | 'onChange'>;
  readonly onReport: (id: number, report: Report) => void;
  /** Worker `id` has ended, and sends no more reports. */
  readonly onEnd: (id: number) => void;
  /** A worker is replaced. */
  readonly onRestart: () => void;
}

/** Workers on the same ports. */
export interface Pool extends Listening {
  /** Requests reports of all workers; resolves when they have arrived, without waiting for a worker that hangs. */
  report(): Promise<void>;
  /** Sends a question to all workers; those that hang are skipped. */
  ask<Q extends AgentQuestion>(question: Q): Promise<readonly NamedReply<ReplyTo<Q>>[]>;
  /** Lets all workers finish the calls in flight, send their last report, and end. */
  close(): Promise<void>;
}

/** How often workers report; a killed worker loses the counts of this time. */
const REPORT_INTERVAL_MS = 250;

/** A worker that lived this long is replaced at once; otherwise after a delay that doubles each time. */
const STEADY_MS = 10_000;
const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 10_000;

/**
 * Starts workers, among which connections are distributed, and replaces those that end.
 *
 * @throws CannotStart if a worker cannot listen; then all are ended
 */
export async function openPool(
  { count, closeWithinMs, rules, onReport, onEnd, onRestart }: PoolOptions,
  log: Logger,
): Promise<Pool> {
  cluster.schedulingPolicy = cluster.SCHED_RR;
  cluster.setupPrimary({ serialization: 'advanced' }); // reports contain maps
  const workers = new Set<WorkerHandle>();
  const closing = new AbortController();
  const spawn = (): WorkerHandle => {
    const worker = spawnWorker(rules.packed, onReport);
    workers.add(worker);
    void worker.ended.then(() => {
      workers.delete(worker);
      onEnd(worker.id);
    });
    return worker;
  };
  const replace = (): WorkerHandle => {
    onRestart();
    return spawn();
  };
  rules.onChange(() => {
    for (const worker of workers) worker.sendRules();
  });
  const report = async (): Promise<void> => {
    await Promise.all(Array.from(workers, (worker) => worker.report()));
  };
  const ask: Pool['ask'] = async (question) => {
    const replies = await Promise.all(
      Array.from(workers, async (worker) => ({ process: worker.name, reply: await worker.ask(question) })),
    );
    return replies.flatMap(({ process, reply }) => (reply ? [{ process, reply: replyTo(question, reply) }] : []));
  };
  const close = async (): Promise<void> => {
    closing.abort();
    const last = setTimeout(() => {
      for (const worker of workers) {
        log.error(`${worker.name} has not ended within ${closeWithinMs} ms and is killed`);
        worker.kill();
      }
    }, closeWithinMs);
    for (const worker of workers) worker.close();
    await Promise.all(Array.from(workers, ({ ended }) => ended));
    clearTimeout(last);
  };

  const first = Array.from({ length: count }, spawn);
  try {
    const [at] = await Promise.all(first.map(({ listening }) => listening));
    if (!at) throw new RangeError('a pool has one worker at least');
    for (const { name } of first) log.info(`${name} listens`);
    for (const worker of first) void keepUp(worker, replace, closing.signal, log);
    void repeat(report, closing.signal);
    return { ...at, report, ask, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Replaces a worker each time it ends. */
async function keepUp(
  first: WorkerHandle,
  spawn: () => WorkerHandle,
  closing: AbortSignal,
  log: Logger,
): Promise<void> {
  let worker = first;
  let startedMs = performance.now();
  let shortLives = 0;
  for (;;) {
    const how = await worker.ended;
    if (closing.aborted) return;
    shortLives = performance.now() - startedMs < STEADY_MS ? shortLives + 1 : 0;
    const waitMs = shortLives === 0 ? 0 : Math.min(FIRST_DELAY_MS * 2 ** (shortLives - 1), MAX_DELAY_MS);
    log.error(`${worker.name} ended (${how}); it is replaced in ${waitMs} ms`);
    await pause(waitMs, closing);
    if (closing.aborted) return;
    worker = spawn();
    startedMs = performance.now();
    const { name, listening } = worker;
    listening.then(
      () => log.warn(`${name} listens`),
      (error: Error) => log.error(`${name} cannot start: ${error.message}`), // a CannotStart
    );
  }
}

async function repeat(report: () => Promise<void>, closing: AbortSignal): Promise<void> {
  while (!closing.aborted) {
    await pause(REPORT_INTERVAL_MS, closing);
    await report();
  }
}

/** Ends early when the pool closes. */
const pause = (forMs: number, signal: AbortSignal): Promise<void> =>
  sleep(forMs, undefined, { signal }).catch(() => {});
