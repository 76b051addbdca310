import { type Job, type Processor, Worker } from 'bullmq';
import { checkNumber, checkTimeout } from '../options.ts';
import { createCounts, type DeferralCounts } from './counts.ts';
import { Heads } from './heads.ts';
import { Lines, lineKey } from './lines.ts';
import type { DeferredWorker, DeferredWorkerOptions } from './options.ts';
import { createJitter } from './pause.ts';
import { requireId, Turns } from './turns.ts';

const DEFAULT_CHECK_INTERVAL_MS = 5_000;
const MAX_INTERVAL_MS = 0x7fff_ffff;

/** How many times a job may be lost with its worker. Two restarts of Redis exceed BullMQ's default of one. */
const MAX_STALLED_COUNT = 10;

/** @see createDeferredWorker */
export function openDeferredWorker<D, R>(
  name: string,
  run: Processor<D, R>,
  options: DeferredWorkerOptions<D>,
  now: () => number,
): DeferredWorker<D, R> {
  const { client, domain, key, opentelemetry, checkIntervalMs = DEFAULT_CHECK_INTERVAL_MS } = options;
  if (!client || !domain || !key) throw new TypeError('expected the options client, domain and key');
  checkNumber('checkIntervalMs', checkIntervalMs, [1, MAX_INTERVAL_MS]);
  if (options.timeoutMs !== undefined) checkTimeout(options.timeoutMs);
  const jitter = createJitter(options.jitterMs);
  const lineOfJob = ({ data }: Job<D>): string | undefined => {
    const descriptors = key(data);
    return descriptors && lineKey(domain, descriptors);
  };
  const handle: Processor<D, R> = async (job, token, signal) => {
    const line = lineOfJob(job);
    if (line !== undefined) await turns.take(line, job, token);
    counts.add('started');
    if (job.stalledCounter > 0) counts.add('restarted');
    counts.waited(now() - job.timestamp);
    const running = Promise.resolve().then(() => run(job, token, signal));
    running.catch(() => {}); // awaited below
    // Not before the start, so that no later job of the line starts first if this process dies.
    if (line !== undefined) await heads.advance(line, requireId(job)).catch(report);
    return running;
  };
  const worker = new Worker<D, R>(name, handle, { maxStalledCount: MAX_STALLED_COUNT, ...options, autorun: false });
  const report = (error: Error) => void worker.emit('error', error);
  const lines = new Lines(worker);
  const heads = new Heads(lines, worker);
  const counts = createCounts(name, opentelemetry);
  const turns = new Turns({ options, lines, heads, counts, jitter, now });
  worker.on('completed', () => counts.add('completed'));
  worker.on('failed', (job) => {
    if (job?.finishedOn === undefined) return counts.add('failed');
    counts.add('deadLettered');
    const line = lineOfJob(job);
    if (line !== undefined) heads.advance(line, requireId(job)).catch(report); // it may have failed without starting
  });
  const checks = startChecks({
    heads,
    counts,
    intervalMs: checkIntervalMs,
    report: (e) => worker.closing ?? report(e),
  });
  if (options.autorun !== false) worker.run().catch(report);
  return {
    worker,
    stats: () => counts.read(),
    async close() {
      await checks.stop();
      await worker.close();
    },
  };
}

interface CheckParts {
  readonly heads: Heads;
  readonly counts: DeferralCounts;
  readonly intervalMs: number;
  readonly report: (error: Error) => unknown;
}

/** Checks the heads of lines at an interval, one check at a time. */
function startChecks({ heads, counts, intervalMs, report }: CheckParts): { stop(): Promise<void> } {
  let checking: Promise<void> | undefined;
  const check = async () => {
    const woken = await heads.check();
    for (let at = 0; at < woken; at++) counts.add('recovered');
  };
  const timer = setInterval(() => {
    checking ??= check()
      .catch(report)
      .then(() => {
        checking = undefined;
      });
  }, intervalMs);
  return {
    async stop() {
      clearInterval(timer);
      await checking;
    },
  };
}
