import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { getHeapStatistics } from 'node:v8';
import { memoryRecords, type Records } from '../admin/records.ts';
import { unitMs } from '../algorithms/limit.ts';
import { Breakers } from '../backends/breaker.ts';
import { type Counters, createCounterKeys, ownCounters } from '../backends/key.ts';
import { createMemoryBackend, type MemoryBackend } from '../backends/memory/backend.ts';
import { sharedCounters } from '../backends/shared-counters.ts';
import type { Clock } from '../clock.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Logger } from '../observe/log.ts';
import { Overrides } from '../overrides.ts';
import type { Settings } from '../settings.ts';
import type { BackendParts, OpenBackends } from './backend-parts.ts';
import { CannotStart } from './cannot-start.ts';
import { type LatenessWatch, watchLateness } from './lateness.ts';
import { type StoreWatch, watchStore } from './store-watch.ts';

/** The opened store of the counters. */
export interface OpenStore {
  readonly ledger: Ledger;
  /** The circuits to the nodes of the store. */
  readonly breakers: Breakers;
  /** Undefined: counters are in memory, and always reachable. */
  readonly watch: StoreWatch | undefined;
  readonly lateness: LatenessWatch;
  /** Undefined: counters are not in memory. */
  readonly memory: MemoryBackend | undefined;
  /** For messages: `in Redis at redis://10.0.0.7:6379/0`. */
  readonly description: string;
  /** Where operators' changes are kept. */
  readonly records: Records;
  /** What operators have set for single descriptors. */
  readonly overrides: Overrides;
}

/** Minimum size of the cache of refusals, as in envoyproxy/ratelimit. */
const MIN_CACHE_BYTES = 512 * 1024;

/** Maximum number of counters with leases. */
const MAX_LEASES = 100_000;
/** Leased hits that are unused for this time are given back. */
const LEASE_IDLE_MS = 250;

/** @throws CannotStart if a certificate file cannot be read */
export async function openStore(settings: Settings, clock: Clock, log: Logger): Promise<OpenStore> {
  const breakers = new Breakers(monotonicMs);
  const lateness = watchLateness(monotonicMs);
  const {
    backends,
    memory,
    description,
    records = memoryRecords(),
  } = await openBackends({ settings, clock, monotonicMs, breakers, lateness, log });
  const { LOCAL_CACHE_SIZE_IN_BYTES: cacheBytes, STORE_TIMEOUT: timeoutMs } = settings;
  const { kind } = settings.store;
  const isRemote = kind !== 'memory';
  const ledger = new Ledger(backends, {
    ...{ clock, monotonicMs, every, instance: randomUUID() },
    denyCacheBytes: isRemote && cacheBytes > 0 ? Math.max(cacheBytes, MIN_CACHE_BYTES) : 0,
    leases: kind === 'redis' ? { maxLeases: MAX_LEASES, idleMs: LEASE_IDLE_MS } : undefined,
    local: isRemote ? { ...memoryBounds(settings), timeoutMs } : undefined,
  });
  const watch = isRemote
    ? watchStore({
        backends: [backends.main, ...(backends.perSecond ? [backends.perSecond] : [])],
        keys: createCounterKeys(settings.CACHE_KEY_PREFIX, { hashTag: settings.CLUSTER_HASH_TAG }),
        ...{ clock, monotonicMs },
      })
    : undefined;
  const overrides = new Overrides(clock, (unit) => unitMs[unit]);
  return { ledger, breakers, watch, lateness, memory, description, records, overrides };
}

const monotonicMs = (): number => performance.now();

function every(intervalMs: number, run: () => void): () => void {
  const timer = setInterval(run, intervalMs).unref();
  return () => clearInterval(timer);
}

/** Default share of V8's heap limit for counters in memory. */
const DEFAULT_HEAP_SHARE = 1 / 4;

/** Limits of one process for counters in memory. */
export function memoryBounds({ MEMORY_MAX_COUNTERS: maxCounters, MEMORY_MAX_BYTES: together, WORKERS }: Settings) {
  const share = together === undefined ? getHeapStatistics().heap_size_limit * DEFAULT_HEAP_SHARE : together / WORKERS;
  return { maxCounters, maxBytes: Math.floor(share) };
}

/** A client library is loaded only for the kind of store that is used. */
async function openBackends(parts: BackendParts): Promise<OpenBackends> {
  const { settings, clock } = parts;
  const { store } = settings;
  switch (store.kind) {
    case 'memory': {
      const bounds = memoryBounds(settings);
      const main = createMemoryBackend(clock, bounds);
      return { backends: { main }, memory: main, description: `in memory, at most ${bounds.maxCounters}` };
    }
    case 'redis': {
      const { openRedisBackends } = await import('./redis-backends.ts');
      return openRedisBackends(store, parts);
    }
    case 'memcache': {
      const { openMemcachedBackend } = await import('./memcached-backend.ts');
      return openMemcachedBackend(store, parts);
    }
  }
}

/** The keys of counters. */
export function countersOf(settings: Settings, clock: Clock): Counters {
  const { CACHE_KEY_PREFIX: prefix, COUNTER_KEYS, EXPIRATION_JITTER_MAX_SECONDS: jitterMaxSeconds } = settings;
  const own = createCounterKeys(prefix, { hashTag: settings.CLUSTER_HASH_TAG });
  if (COUNTER_KEYS === 'own') return ownCounters(own);
  return sharedCounters({ prefix, own, jitterMaxSeconds, clock, random: Math.random });
}

/** How long start-up waits for the store, so that the first answers are not failures. */
const START_WAIT_MS = 1_000;

/** Waits briefly until the store can be reached; the service also starts without it. */
export async function awaitStore({ ledger }: OpenStore): Promise<void> {
  for (let waitedMs = 0; !ledger.health().ready && waitedMs < START_WAIT_MS; waitedMs += START_POLL_MS)
    await sleep(START_POLL_MS);
}
const START_POLL_MS = 5;

/** How often the first contact with the store is polled. */
const POLL_INTERVAL_MS = 100;

/** Resolves if the store was never reached within this time after the start; 0: never resolves. */
export function whenNeverReached(maxElapsedMs: number, { ledger, description }: OpenStore): Promise<CannotStart> {
  return new Promise((resolve) => {
    if (maxElapsedMs === 0) return;
    const end = setTimeout(() => {
      clearInterval(poll);
      const message = `counters ${description} could not be reached within ${maxElapsedMs} ms of the start`;
      resolve(new CannotStart(`REDIS_STARTUP_MAX_ELAPSED_TIME: ${message}`));
    }, maxElapsedMs).unref();
    const poll = setInterval(() => {
      if (!ledger.health().ready) return;
      clearTimeout(end);
      clearInterval(poll);
    }, POLL_INTERVAL_MS).unref();
  });
}
