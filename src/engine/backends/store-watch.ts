import type { Clock } from '../../base/clock.ts';
import { epochWindow } from '../algorithms/fixed-window.ts';
import type { Backend, RequestOperation } from './backend.ts';
import type { CounterKeys } from './key.ts';
import type { Stopwatch } from './lateness.ts';

/** Monitors whether the store can be reached, independent of requests. */
export type StoreWatch = ReturnType<typeof watchStore>;

interface StoreWatchOptions {
  readonly backends: readonly Backend[];
  /** Keys like those of counters, since the Redis user may be restricted to them. */
  readonly keys: CounterKeys;
  readonly clock: Clock;
  readonly stopwatch: Stopwatch;
}

/** Interval of the checks: an outage is detected after this time plus the timeout. */
const INTERVAL_MS = 1_000;
const TIMEOUT_MS = 1_000;
/** Number of keys, enough to reach most nodes of a Cluster. */
const KEYS = 8;

const limit = epochWindow({ requestsPerUnit: 1, windowMs: 60_000 });

/** Peeks at unused counters once a second, which writes nothing. */
export function watchStore({ backends, keys, clock, stopwatch }: StoreWatchOptions) {
  const peeks = Array.from({ length: KEYS }, (_, at): RequestOperation => {
    const key = keys(limit, `weir-watch-${at}`, [{ key: 'watch', value: '' }]);
    return { kind: 'peek', key, limit, hits: 0, blocks: false };
  });
  let failure: string | undefined;
  /** Time of its last answer, in milliseconds since the epoch; undefined before the first. */
  let lastSuccessAtMs: number | undefined;
  /** Latency of its last answer. */
  let latencyMs: number | undefined;
  let isAsking = false;
  const ask = async (): Promise<void> => {
    if (isAsking) return;
    isAsking = true;
    const stop = stopwatch();
    const replies = await Promise.all(
      backends.map((backend) => backend.run(peeks, { spend: 'each', timeoutMs: TIMEOUT_MS })),
    );
    isAsking = false;
    const failed = replies.flat().find((reply) => reply.code === 'UNAVAILABLE');
    failure = failed && 'reason' in failed ? failed.reason : undefined;
    if (failure !== undefined) return;
    lastSuccessAtMs = clock();
    latencyMs = stop();
  };
  void ask();
  const timer = setInterval(ask, INTERVAL_MS).unref();
  return {
    state() {
      const unready = backends.map((backend) => backend.health()).find(({ ready }) => !ready);
      const reason =
        unready && !unready.ready
          ? unready.reason
          : (failure ?? (lastSuccessAtMs === undefined ? 'not checked yet' : undefined));
      return { isUp: reason === undefined, reason, lastSuccessAtMs, latencyMs };
    },
    close: (): void => clearInterval(timer),
  };
}
