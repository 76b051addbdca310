import type { FixedWindowLimit } from '../../algorithms/fixed-window.ts';
import type { Backend, RequestOperation } from '../backend.ts';
import type { CounterKeys } from '../key.ts';
import type { RedisConnection } from './connect.ts';

export interface ProbeOptions {
  readonly backend: Backend;
  readonly redis: RedisConnection;
  /** Keys like those of counters: a user may be restricted to them. */
  readonly keys: CounterKeys;
  /** The script has run, after Redis had refused it. */
  readonly onUsable: () => void;
}

/** Finds out whether Redis runs the script. */
export interface Probe {
  /** The backend, which is ready only while Redis runs the script. */
  readonly backend: Backend;
  /** A call was refused: finds out whether all are. */
  refused(): void;
}

const TIMEOUT_MS = 1_000;
/** How soon the script is run again that was refused, or had no answer. */
const RETRY_MS = 500;
/** Keys that a Cluster is probed with: enough to reach most of its nodes. */
const CLUSTER_KEYS = 16;

/** Its counter has a name that none of a rule has: those begin with their algorithm. */
const limit: FixedWindowLimit = {
  ...{ algorithm: 'fixed_window', alignment: 'epoch', counter: 'weir_probe' },
  ...{ requestsPerUnit: 1, soft: 0, windowMs: 1_000 },
};

/**
 * Runs the script on counters of no request, with a peek of 0 hits, which writes nothing: on each new connection, and
 * while Redis refuses it. A server that can be reached but forbids the script, or is still loading, is not ready.
 */
export function createProbe({ backend, redis, keys, onUsable }: ProbeOptions): Probe {
  const count = redis.isCluster ? CLUSTER_KEYS : 1;
  const peeks = Array.from({ length: count }, (_, at): RequestOperation => {
    const key = keys(limit, String(at), []);
    return { kind: 'peek', key, limit, hits: 0, blocks: false };
  });
  let refusal: string | undefined = NOT_YET;
  let isProbing = false;
  let retry: NodeJS.Timeout | undefined;
  let isClosed = false;

  const run = async (): Promise<void> => {
    if (isProbing || isClosed) return;
    isProbing = true;
    clearTimeout(retry);
    retry = undefined;
    const replies = await backend.run(peeks, { spend: 'each', timeoutMs: TIMEOUT_MS });
    isProbing = false;
    const reasons = replies.flatMap((reply) => (reply.code === 'UNAVAILABLE' ? [reply.reason] : []));
    const refused = reasons.find((reason) => isRefusal(reason.replace(BACKEND_NAME, '')));
    if (refused !== undefined) refusal = refused;
    else if (reasons.length === 0) {
      if (refusal !== undefined && refusal !== NOT_YET) onUsable();
      refusal = undefined;
    }
    if (reasons.length > 0) runSoon();
  };
  const runSoon = (): void => {
    if (!isClosed) retry ??= setTimeout(run, RETRY_MS).unref();
  };
  redis.on('ready', () => void run());
  const invalidations = backend.invalidations?.bind(backend);
  const list = backend.list?.bind(backend);

  return {
    backend: {
      atomic: backend.atomic,
      run: (operations, how) => backend.run(operations, how),
      shardOf: (operation) => backend.shardOf(operation),
      settle: (settlement, timeoutMs) => backend.settle(settlement, timeoutMs),
      ...(list && { list: (after, count) => list(after, count) }),
      fork: (counters, timeoutMs) => backend.fork(counters, timeoutMs),
      ...(invalidations && { invalidations: (listener) => invalidations(listener) }),
      health() {
        const health = backend.health();
        return health.ready && refusal !== undefined ? { ready: false, reason: refusal } : health;
      },
      close() {
        isClosed = true;
        clearTimeout(retry);
        return backend.close();
      },
    },
    refused: runSoon,
  };
}

const NOT_YET = 'the script has not run yet';
const BACKEND_NAME = /^redis: /;

/** Whether Redis itself refused a call: its errors begin with a code such as NOPERM, OOM or ERR. */
export const isRefusal = (reason: string): boolean => /^[A-Z]{2,} /.test(reason);
