import cluster from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RuleBook } from '../../engine/rules/reload/book.ts';
import { removeStaleSocket } from '../../h2/listen/listener.ts';
import { type AgentQuestion, type NamedReply, type ReplyTo, replyTo } from '../../operate/admin/agent.ts';
import type { CandidateFeed } from '../../operate/candidate/feed.ts';
import type { Logger } from '../../operate/observe/log.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { Settings } from '../../settings/settings.ts';
import { start } from '../parts/start-up.ts';
import { HandedConnections } from './handed-connections.ts';
import type { Responders } from './responders.ts';
import { spawnWorker, type WorkerHandle } from './worker-handle.ts';
import { createWorkerTotals } from './worker-totals.ts';

/** How often workers report; a killed worker loses the counts of this time. */
const REPORT_INTERVAL_MS = 250;

/** A worker that lived this long is replaced at once; otherwise after a delay that doubles each time. */
const STEADY_MS = 10_000;
const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 10_000;

/**
 * Closing workers are killed this long after the calls in flight must have ended, for example while they send their
 * last traces.
 */
const END_GRACE_MS = 10_000;

/** The rules that the primary process sends to workers. */
interface WorkerRules {
  readonly book: Pick<RuleBook, 'packed' | 'onChange'>;
  readonly candidate: Pick<CandidateFeed, 'packed' | 'onChange'>;
}

/**
 * Answers requests in worker processes on the same ports, distributes connections among them, and replaces workers that
 * end. Workers are started by `listen`, and receive the rules in force, then each change.
 */
export function openWorkers(
  { workers: count, grpc, drain }: Pick<Settings, 'workers' | 'grpc' | 'drain'>,
  { book: rules, candidate }: WorkerRules,
  statistics: Statistics,
  log: Logger,
): Responders {
  const totals = createWorkerTotals(statistics);
  const workers = new Set<WorkerHandle>();
  const closing = new AbortController();
  let restarts = 0;
  rules.onChange(() => {
    for (const worker of workers) worker.sendRules();
  });
  candidate.onChange(() => {
    for (const worker of workers) worker.sendCandidate();
  });
  const refresh = () => reportAll(workers);
  const close = (): Promise<void> => {
    closing.abort();
    return endAll(workers, drain.delayMs + drain.timeoutMs + END_GRACE_MS, log);
  };
  return {
    ...{ refresh, ...totals, close: () => {}, restarts: () => restarts },
    ask: (question) => askAll(workers, question),
    async listen(onCallFinished) {
      const { address } = grpc;
      const path = 'path' in address ? address.path : undefined;
      if (path !== undefined) await start('GRPC_UDS', `cannot listen on ${path}`, () => removeStaleSocket(path));
      cluster.schedulingPolicy = cluster.SCHED_RR;
      cluster.setupPrimary({ serialization: 'advanced' }); // reports contain maps
      const sent = { rules: rules.packed, candidate: () => candidate.packed() };
      const connections = new HandedConnections();
      const spawn = (): WorkerHandle => {
        const worker = spawnWorker(sent, connections, (id, report) => totals.add(id, report, onCallFinished));
        workers.add(worker);
        void worker.ended.then(() => {
          workers.delete(worker);
          totals.ended(worker.id);
        });
        return worker;
      };
      const replace = (): WorkerHandle => {
        restarts++;
        return spawn();
      };
      const first = Array.from({ length: count }, spawn);
      try {
        const [at] = await Promise.all(first.map(({ listening }) => listening));
        if (!at) throw new RangeError('a pool has one worker at least');
        for (const { name } of first) log.info(`${name} listens`);
        for (const worker of first) void keepUp(worker, replace, closing.signal, log);
        void repeat(refresh, closing.signal);
        return { ...at, close };
      } catch (error) {
        await close();
        throw error;
      }
    },
  };
}

async function reportAll(workers: ReadonlySet<WorkerHandle>): Promise<void> {
  await Promise.all(Array.from(workers, (worker) => worker.report()));
}

/** The replies of the workers that respond in time. */
async function askAll<Q extends AgentQuestion>(
  workers: ReadonlySet<WorkerHandle>,
  question: Q,
): Promise<readonly NamedReply<ReplyTo<Q>>[]> {
  const replies = await Promise.all(
    Array.from(workers, async (worker) => ({ process: worker.name, reply: await worker.ask(question) })),
  );
  return replies.flatMap(({ process, reply }) => (reply ? [{ process, reply: replyTo(question, reply) }] : []));
}

/** Lets all workers finish the calls in flight, send their last report, and end; kills those that take longer. */
async function endAll(workers: ReadonlySet<WorkerHandle>, withinMs: number, log: Logger): Promise<void> {
  const last = setTimeout(() => {
    for (const worker of workers) {
      log.error(`${worker.name} has not ended within ${withinMs} ms and is killed`);
      worker.kill();
    }
  }, withinMs);
  for (const worker of workers) worker.close();
  await Promise.all(Array.from(workers, ({ ended }) => ended));
  clearTimeout(last);
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
