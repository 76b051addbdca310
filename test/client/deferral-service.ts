import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDeferredQueue } from '../../client/src/bullmq.ts';
import type { DeferralStats, DeferredQueue } from '../../client/src/deferral/options.ts';
import { type Running, start } from '../helpers/process.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { until } from '../helpers/until.ts';
import { closeLater, type Service, startService } from './service.ts';

/** A job of `apps/deferred-worker.ts`. */
export interface Work {
  readonly key: string;
  readonly at: number;
  readonly runMs: number;
}

/** A line that a job has logged. */
export interface Note {
  readonly nowNs: bigint;
  readonly what: 'start' | 'end';
  readonly key: string;
  readonly at: number;
  readonly pid: number;
}

/** A queue with a Weir, a Redis with persistence, and a log of its jobs. */
export interface Deferral {
  readonly service: Service;
  readonly redis: Redis;
  readonly queue: DeferredQueue<Work, unknown>;
  /** The notes so far, in order of time. */
  notes(): readonly Note[];
  startWorker(options: { readonly lockMs: number }): Promise<Running>;
}

export async function startDeferral(rules: string): Promise<Deferral> {
  const folder = mkdtempSync(join(tmpdir(), 'deferral-'));
  const redis = await startRedis({ folder });
  closeLater(() => redis.stop());
  const service = await startService(rules);
  const queue = createDeferredQueue<Work>('work', {
    connection: { host: '127.0.0.1', port: redis.port },
    domain: 'work',
    key: ({ key }) => ({ key }),
  });
  queue.queue.on('error', () => {}); // Redis restarts
  closeLater(() => queue.close());
  const log = join(folder, 'jobs.log');
  return {
    service,
    redis,
    queue,
    notes: () => notesIn(log),
    async startWorker({ lockMs }) {
      const program = 'test/client/apps/deferred-worker.ts';
      const args = ['--import', 'tsx', program, service.grpc, String(redis.port), log, String(lockMs)];
      const worker = await start(process.execPath, args, { name: 'worker' });
      closeLater(() => worker.stop());
      await worker.waitFor('ready', START_TIMEOUT_MS);
      return worker;
    },
  };
}
const START_TIMEOUT_MS = 60_000;

function notesIn(log: string): readonly Note[] {
  const notes = readText(log)
    .split('\n')
    .slice(0, -1)
    .map((line): Note => {
      const [nowNs = '', what, key = '', at = '', pid = ''] = line.split(' ');
      return { nowNs: BigInt(nowNs), what: what === 'end' ? what : 'start', key, at: Number(at), pid: Number(pid) };
    });
  return notes.sort((one, other) => (one.nowNs < other.nowNs ? -1 : 1));
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // no job has started
  }
}

/** Stops a worker. @returns the counts that it prints */
export async function statsOf(worker: Running): Promise<DeferralStats> {
  await worker.stop();
  return JSON.parse(worker.output().trim().split('\n').at(-1) ?? '');
}

/** By key, the numbers of jobs in the order of their first starts. */
export function firstStarts(notes: readonly Note[]): ReadonlyMap<string, readonly number[]> {
  const starts = new Map<string, Set<number>>();
  for (const { what, key, at } of notes) {
    if (what !== 'start') continue;
    const seen = starts.get(key) ?? new Set();
    starts.set(key, seen.add(at));
  }
  return new Map(Array.from(starts, ([key, seen]) => [key, [...seen]]));
}

export function groupsOf<T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

/** 0, 1, 2 … */
export const upTo = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);

/** Waits until the condition holds. Errors count as false, since Redis may be down. */
export const eventually = (what: string, holds: () => Promise<boolean>, withinMs = 60_000): Promise<void> =>
  until(what, () => holds().catch(() => false), withinMs);
