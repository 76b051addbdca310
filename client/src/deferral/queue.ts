import { type Job, Queue, type QueueOptions } from 'bullmq';
import { Heads, PARK_MS } from './heads.ts';
import { Lines, lineKey } from './lines.ts';
import type { DeferredJob, DeferredQueue, LineOptions } from './options.ts';

/** Jobs whose run throws are retried, unless they have other options. */
const DEFAULT_JOB_OPTIONS = { attempts: 5, backoff: { type: 'exponential', delay: 1_000 } };

/** @see createDeferredQueue */
export function openDeferredQueue<D, R>(name: string, options: LineOptions<D> & QueueOptions): DeferredQueue<D, R> {
  const { domain, key, defaultJobOptions, ...queueOptions } = options;
  if (!domain || !key) throw new TypeError('expected the options domain and key');
  const queue = new Queue<D, R, string, D, R, string>(name, {
    ...queueOptions,
    defaultJobOptions: { ...DEFAULT_JOB_OPTIONS, ...defaultJobOptions },
  });
  const lines = new Lines(queue);
  const heads = new Heads(lines, queue);

  async function addBulk(jobs: readonly DeferredJob<D>[]): Promise<Job<D, R, string>[]> {
    const lineOfJob = jobs.map(lineToJoin);
    // Jobs are added to the queue before their line, so that each head can be woken.
    const added = await queue.addBulk(
      jobs.map(({ name, data, opts }, at) => ({
        name,
        data,
        opts: lineOfJob[at] === undefined ? { ...opts } : { ...opts, delay: PARK_MS },
      })),
    );
    const arrivals = new Map<string, string[]>();
    for (const [at, { id }] of added.entries()) {
      const line = lineOfJob[at];
      if (line === undefined || id === undefined) continue;
      const ids = arrivals.get(line);
      if (ids) ids.push(id);
      else arrivals.set(line, [id]);
    }
    for (const [line, ids] of arrivals) {
      for await (const head of lines.arrive(line, ids, PARK_MS))
        if (!(await heads.wake(head))) await heads.advance(line, head);
    }
    return added;
  }

  /** Undefined: the job is not limited, or joins its line later. */
  function lineToJoin({ data, opts }: DeferredJob<D>): string | undefined {
    const descriptors = opts?.delay ? undefined : key(data);
    return descriptors && lineKey(domain, descriptors);
  }

  return {
    queue,
    addBulk,
    async add(jobName, data, opts) {
      const [job] = await addBulk([{ name: jobName, data, ...(opts && { opts }) }]);
      if (!job) throw new Error('BullMQ has added no job');
      return job;
    },
    close: () => queue.close(),
  };
}
