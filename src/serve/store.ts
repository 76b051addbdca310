import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { getHeapStatistics } from 'node:v8';
import type { Backend } from '../backends/backend.ts';
import { Breakers } from '../backends/breaker.ts';
import { type Counters, createCounterKeys, ownCounters } from '../backends/key.ts';
import { MemcachedBackend } from '../backends/memcached/backend.ts';
import { referenceCounters as memcachedReferenceCounters } from '../backends/memcached/reference.ts';
import { openServers } from '../backends/memcached/servers.ts';
import { createMemoryBackend, type MemoryBackend } from '../backends/memory/backend.ts';
import { describeAddress } from '../backends/redis/address.ts';
import { RedisBackend } from '../backends/redis/backend.ts';
import { connect } from '../backends/redis/connect.ts';
import { createProbe, isRefusal } from '../backends/redis/probe.ts';
import { referenceCounters } from '../backends/redis/reference/counters.ts';
import { sharedCounters } from '../backends/shared-counters.ts';
import { tlsOptions } from '../backends/tls.ts';
import type { Clock } from '../clock.ts';
import { type Backends, Ledger } from '../ledger/ledger.ts';
import type { Logger } from '../observe/log.ts';
import type { RedisSettings, StoreSettings } from '../settings/stores.ts';
import type { Settings } from '../settings.ts';
import { CannotStart, start } from './cannot-start.ts';
import { createLatenessLog, type LatenessWatch, watchLateness } from './lateness.ts';
import { createRefusalLog } from './refusals.ts';
import { type StoreWatch, watchStore } from './store-watch.ts';
import { atomicOfRedis } from './traits.ts';

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
  const { backends, memory, description } = await openBackends(settings, clock, breakers, lateness, log);
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
  return { ledger, breakers, watch, lateness, memory, description };
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

interface OpenBackends {
  /** Undefined: counters are not in memory. */
  readonly memory?: MemoryBackend;
  readonly backends: Backends;
  readonly description: string;
}

async function openBackends(
  settings: Settings,
  clock: Clock,
  breakers: Breakers,
  lateness: LatenessWatch,
  log: Logger,
): Promise<OpenBackends> {
  const { store: chosen } = settings;
  switch (chosen.kind) {
    case 'memory': {
      const bounds = memoryBounds(settings);
      const main = createMemoryBackend(clock, bounds);
      return { backends: { main }, memory: main, description: `in memory, at most ${bounds.maxCounters}` };
    }
    case 'redis': {
      const main = await openRedis('REDIS_URL', chosen.main, settings, clock, breakers, lateness, log);
      if (!chosen.perSecond) return { backends: { main: main.backend }, description: `in Redis: ${main.description}` };
      const perSecond = await openRedis(
        'REDIS_PERSECOND_URL',
        chosen.perSecond,
        settings,
        clock,
        breakers,
        lateness,
        log,
      );
      return {
        backends: { main: main.backend, perSecond: perSecond.backend },
        description: `in Redis: ${main.description}; by the second: ${perSecond.description}`,
      };
    }
    case 'memcache':
      return openMemcached(chosen, settings, clock, lateness, log);
  }
}

async function openRedis(
  variable: string,
  redisSettings: RedisSettings,
  settings: Settings,
  clock: Clock,
  breakers: Breakers,
  lateness: LatenessWatch,
  log: Logger,
): Promise<{ readonly backend: Backend; readonly description: string }> {
  const { address } = redisSettings;
  const description = describeAddress(address);
  const { REDIS_STARTUP_INITIAL_INTERVAL: initialMs, REDIS_STARTUP_MAX_INTERVAL: maxMs } = settings;
  const onTlsProblem = (problem: string) => log.error(`${description}: ${problem}`);
  const redis = await start(variable, 'cannot be used', () =>
    connect({ ...redisSettings, startup: { initialMs, maxMs }, onTlsProblem }),
  );
  let wasDown = false;
  redis.on('ready', () => {
    if (wasDown) log.warn(`connected to ${description} again`);
    else log.info(`connected to ${description}`);
    wasDown = false;
  });
  redis.on('error', (error: Error) => {
    if (!wasDown) log.error(`no connection to ${description}: ${error.message}; retrying`);
    wasDown = true;
  });
  const atomic = atomicOfRedis(address, settings);
  const logRefusal = createRefusalLog(description, clock, log);
  const logLateness = createLatenessLog(lateness, settings.STORE_TIMEOUT, monotonicMs, log);
  const onUnavailable = (reason: string): void => {
    if (reason.endsWith(' ms late')) return logLateness();
    if (!isRefusal(reason)) return;
    logRefusal(reason);
    probe.refused();
  };
  const { CACHE_KEY_PREFIX: prefix, CLUSTER_HASH_TAG: hashTag } = settings;
  const slowMs = Math.max(settings.STORE_TIMEOUT, 1);
  const foreign = settings.COUNTER_KEYS === 'reference' ? { foreign: referenceCounters } : {};
  const { latenessMs } = lateness;
  const options = {
    atomic,
    name: description,
    slowMs,
    breakers,
    prefix,
    monotonicMs,
    latenessMs,
    onUnavailable,
    ...foreign,
  } as const;
  const probe = createProbe({
    backend: new RedisBackend(redis, clock, options),
    redis,
    keys: createCounterKeys(prefix, { hashTag }),
    onUsable: () => log.warn(`${description} accepts calls again`),
  });
  return { backend: probe.backend, description };
}

async function openMemcached(
  { servers, tls }: Extract<StoreSettings, { kind: 'memcache' }>,
  { COUNTER_KEYS }: Settings,
  clock: Clock,
  lateness: LatenessWatch,
  log: Logger,
): Promise<OpenBackends> {
  const options = {
    servers,
    monotonicMs,
    onDown: (server: string, error: Error) => log.error(`memcached ${server}: ${error.message}; retrying`),
    onUp: (server: string) => log.warn(`memcached ${server} answers again`),
  };
  const opened = await start('MEMCACHE_HOST_PORT', 'cannot be used', () =>
    openServers({ ...options, tls: tls && tlsOptions(tls, (problem) => log.error(`memcached: ${problem}`)) }),
  );
  const names = 'srv' in servers ? `the servers of ${servers.srv}` : servers.join(', ');
  const foreign = COUNTER_KEYS === 'reference' ? memcachedReferenceCounters : undefined;
  const main = new MemcachedBackend(opened, { clock, monotonicMs }, lateness.latenessMs, foreign);
  return { backends: { main }, description: `in memcached at ${names}` };
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
