import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { memoryRecords, type Records } from '../admin/records.ts';
import { unitMs } from '../algorithms/limit.ts';
import { Breakers } from '../backends/breaker.ts';
import { type Counters, createCounterKeys, ownCounters } from '../backends/key.ts';
import { type Lateness, watchLateness } from '../backends/lateness.ts';
import { createMemoryBackend, type MemoryBackend } from '../backends/memory/backend.ts';
import { sharedCounters } from '../backends/shared-counters.ts';
import { type StoreWatch, watchStore } from '../backends/store-watch.ts';
import { type Clock, monotonicMs } from '../clock.ts';
import { createEstimates, type Estimates } from '../ledger/estimates.ts';
import { LEASE_IDLE_MS } from '../ledger/lease.ts';
import { Ledger } from '../ledger/ledger.ts';
import { Overrides } from '../overrides.ts';
import type { Settings } from '../settings.ts';
import { CannotStart, openParts, type Part } from '../start-up.ts';
import type { BackendContext, OpenBackends } from './backend-parts.ts';
import { every, type ProcessContext } from './context.ts';

/** The opened store of the counters. */
export interface OpenStore extends Part {
  readonly ledger: Ledger;
  /** The circuits to the nodes of the store. */
  readonly breakers: Breakers;
  readonly lateness: Lateness;
  /** Undefined: counters are in memory, and always reachable. */
  readonly watch: StoreWatch | undefined;
  /** Undefined: counters are not in memory. */
  readonly memory: MemoryBackend | undefined;
  /** For messages: `in Redis at redis://10.0.0.7:6379/0`. */
  readonly description: string;
  /** Opens where shares are kept; undefined: the engine keeps none. */
  readonly openShares: OpenBackends['openShares'];
  /** Where operators' changes are kept. */
  readonly records: Records;
  /** What operators have set for single descriptors. */
  readonly overrides: Overrides;
  readonly estimates: Estimates;
}

/** Maximum number of counters with leases. */
const MAX_LEASES = 100_000;

/** @throws CannotStart if a certificate file cannot be read */
export function openStore(options: Settings['counters'], { clock, log }: ProcessContext): Promise<OpenStore> {
  return openParts(async (add) => {
    const breakers = new Breakers(monotonicMs);
    const lateness = watchLateness(monotonicMs);
    const opened = await openBackends(options, { clock, log, monotonicMs, breakers, lateness });
    const { backends, memory, description, openShares, records = memoryRecords() } = opened;
    const { store, timeoutMs, denyCacheBytes, keys } = options;
    const isRemote = store.kind !== 'memory';
    const ledger = add(
      new Ledger(backends, {
        ...{ clock, monotonicMs, every, instance: randomUUID(), denyCacheBytes },
        leases: store.kind === 'redis' ? { maxLeases: MAX_LEASES, idleMs: LEASE_IDLE_MS } : undefined,
        local: isRemote ? { ...options.memory, timeoutMs } : undefined,
      }),
    );
    const watched = [backends.main, ...(backends.perSecond ? [backends.perSecond] : [])];
    const watch = isRemote
      ? add(watchStore({ backends: watched, keys: createCounterKeys(keys.prefix, keys), clock, monotonicMs }))
      : undefined;
    add(lateness);
    const overrides = new Overrides(clock, (unit) => unitMs[unit]);
    const estimates = createEstimates();
    return { ledger, breakers, lateness, watch, memory, description, openShares, records, overrides, estimates };
  });
}

/** A client library is loaded only for the kind of store that is used. */
export async function openBackends(options: Settings['counters'], context: BackendContext): Promise<OpenBackends> {
  switch (options.store.kind) {
    case 'memory': {
      const main = createMemoryBackend(context.clock, options.memory);
      return {
        ...{ backends: { main }, memory: main, description: `in memory, at most ${options.memory.maxCounters}` },
        openShares: async (terms, maxBytes) =>
          new (await import('../shares/share-store.ts')).MemoryShares(context.clock, terms, maxBytes),
      };
    }
    case 'redis': {
      const { openRedisBackends } = await import('./redis-backends.ts');
      return openRedisBackends(options.store, options, context);
    }
    case 'memcache': {
      const { openMemcachedBackend } = await import('./memcached-backend.ts');
      return openMemcachedBackend(options.store, options, context);
    }
  }
}

/** Finds the counters of limits. */
export function countersOf({ keys }: Settings['counters'], clock: Clock): Counters {
  const own = createCounterKeys(keys.prefix, keys);
  if (keys.kind === 'own') return ownCounters(own);
  return sharedCounters({ ...keys, own, clock, random: Math.random });
}

/** How long start-up waits for the store, so that the first answers are not failures. */
const START_WAIT_MS = 1_000;
const START_POLL_MS = 5;

/** Waits briefly until the store can be reached; the service also starts without it. */
export async function awaitStore({ ledger }: OpenStore): Promise<void> {
  for (let waitedMs = 0; !ledger.health().ready && waitedMs < START_WAIT_MS; waitedMs += START_POLL_MS)
    await sleep(START_POLL_MS);
}

/** How often the first contact with the store is polled. */
const POLL_INTERVAL_MS = 100;

/** Resolves if the store was never reached within this time after the start; 0: never resolves. */
export function whenNeverReached(maxElapsedMs: number, { ledger, description }: OpenStore): Promise<CannotStart> {
  return new Promise((resolve) => {
    if (maxElapsedMs === 0) return;
    const end = setTimeout(() => {
      stopPolling();
      const message = `counters ${description} could not be reached within ${maxElapsedMs} ms of the start`;
      resolve(new CannotStart(`REDIS_STARTUP_MAX_ELAPSED_TIME: ${message}`));
    }, maxElapsedMs).unref();
    const stopPolling = every(POLL_INTERVAL_MS, () => {
      if (!ledger.health().ready) return;
      clearTimeout(end);
      stopPolling();
    });
  });
}
