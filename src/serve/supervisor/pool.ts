import cluster from 'node:cluster';
import { removeStaleSocket } from '../../h2/listen/listener.ts';
import type { Logger } from '../../operate/observe/log.ts';
import type { Settings } from '../../settings/settings.ts';
import { start } from '../parts/start-up.ts';
import type { DeciderEvents, DeciderProcesses, KeptState, ListeningDecider } from './deciders.ts';
import { HandedConnections } from './handed-connections.ts';
import { keepUp } from './restarts.ts';
import { WorkerHandle } from './worker-handle.ts';

/** Closing workers are killed this long after their calls must have ended: they may be sending their last traces. */
const END_GRACE_MS = 10_000;

interface PoolOptions {
  readonly kept: KeptState;
  readonly events: DeciderEvents;
  readonly log: Logger;
}

/** Workers on the same ports: distributes connections among them, and replaces those that end. */
export function openPool(
  { workers: count, grpc, drain }: Pick<Settings, 'workers' | 'grpc' | 'drain'>,
  { kept, events, log }: PoolOptions,
): DeciderProcesses {
  const workers = new Map<number, WorkerHandle>();
  const listening = new Map<number, ListeningDecider>();
  const closing = new AbortController();
  const connections = new HandedConnections();
  const files = new Map<string, Readonly<Record<string, unknown>>>();
  let restarts = 0;
  const spawn = (): WorkerHandle => {
    const worker = new WorkerHandle({ kept, connections, files, events, log });
    const { id, name } = worker;
    workers.set(id, worker);
    void worker.listening.then(
      ({ counters }) => {
        const started = { id, name, counters };
        listening.set(id, started);
        events.onListening(started);
      },
      () => {}, // `ended` follows
    );
    void worker.ended.then(() => {
      workers.delete(id);
      if (listening.delete(id)) events.onEnded(id);
    });
    return worker;
  };
  const replace = (): WorkerHandle => {
    restarts++;
    const worker = spawn();
    worker.listening.then(
      () => log.warn(`${worker.name} is listening`),
      (error: Error) => log.error(`${worker.name} cannot start: ${error.message}`), // a CannotStart
    );
    return worker;
  };
  const keepWorker = (first: WorkerHandle): Promise<void> =>
    keepUp({
      first,
      replace,
      closing: closing.signal,
      onEnd: (how, waitMs, { name }) => log.error(`${name} exited (${how}); restarting in ${waitMs} ms`),
    });
  const close = (): Promise<void> => {
    closing.abort();
    return endAll([...workers.values()], drain.delayMs + drain.timeoutMs + END_GRACE_MS, log);
  };
  return {
    async listen() {
      const { address } = grpc;
      const path = 'path' in address ? address.path : undefined;
      if (path !== undefined) await start('GRPC_UDS', `cannot listen on ${path}`, () => removeStaleSocket(path));
      cluster.setupPrimary({ serialization: 'advanced' }); // reports contain maps
      const first = await start('WORKERS', 'cannot start a worker', () => Array.from({ length: count }, spawn));
      const [at] = await Promise.all(first.map((worker) => worker.listening));
      if (!at) throw new RangeError('a pool has one worker at least');
      for (const { name } of first) log.info(`${name} is listening`);
      for (const worker of first) void keepWorker(worker);
      return at;
    },
    listening: () => listening.values(),
    spread(message) {
      for (const worker of workers.values()) worker.spread(message);
    },
    send: (id, message) => workers.get(id)?.send(message),
    restarts: () => restarts,
    close,
  };
}

/** Lets all workers finish the calls in flight, send their last report, and end; kills those that take longer. */
async function endAll(workers: readonly WorkerHandle[], withinMs: number, log: Logger): Promise<void> {
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
