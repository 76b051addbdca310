import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import type { Logger } from '../observe/log.ts';
import type { StoreTraits } from '../rules/fit.ts';
import type { RedisSettings, StoreSettings } from '../settings/stores.ts';
import type { Settings } from '../settings.ts';
import { Breakers } from '../stores/breaker.ts';
import { createDenyCache, type DenyCache } from '../stores/deny-cache.ts';
import { createGuard } from '../stores/guard.ts';
import { type Counters, createCounterKeys, ownCounters } from '../stores/key.ts';
import { LeasingStore } from '../stores/leases.ts';
import { openServers } from '../stores/memcached/servers.ts';
import { createMemcachedStore } from '../stores/memcached/store.ts';
import { createMemoryStore } from '../stores/memory.ts';
import { createPerSecondStore } from '../stores/per-second.ts';
import { describeAddress } from '../stores/redis/address.ts';
import { connect } from '../stores/redis/connect.ts';
import { createRedisStore } from '../stores/redis/store.ts';
import { sharedCounters } from '../stores/shared-counters.ts';
import type { Store } from '../stores/store.ts';
import { tlsOptions } from '../stores/tls.ts';
import { CannotStart, start } from './cannot-start.ts';

/** Where counters are kept. */
export interface OpenStore {
  readonly store: Store;
  /** Of refusals; undefined where there is none. */
  readonly cache: DenyCache | undefined;
  /** Of the nodes that the counters are on. */
  readonly breakers: Breakers;
  /** Undefined where nothing can be leased. */
  readonly leases: LeasingStore | undefined;
  /** For people: `in Redis at redis://10.0.0.7:6379/0`. */
  readonly description: string;
}

/** The least that a cache of refusals may take, whatever is set, as in envoyproxy/ratelimit. */
const MIN_CACHE_BYTES = 512 * 1024;

/** Counters that hits may be leased from at a time. */
const MAX_LEASES = 100_000;
/** What is leased and not used for so long is given back. */
const LEASE_IDLE_MS = 250;

/** @throws CannotStart  a file of certificates cannot be read */
export async function openStore(settings: Settings, clock: Clock, log: Logger): Promise<OpenStore> {
  const { LOCAL_CACHE_SIZE_IN_BYTES: cacheBytes } = settings;
  const breakers = new Breakers();
  const { store, description } = await openBackend(settings, clock, breakers, log);
  if (settings.store.kind === 'memory') return { store, cache: undefined, breakers, leases: undefined, description };
  const cache =
    cacheBytes === 0 ? undefined : createDenyCache(store, { clock, maxBytes: Math.max(cacheBytes, MIN_CACHE_BYTES) });
  const { MEMORY_MAX_COUNTERS: maxCounters, STORE_TIMEOUT: timeoutMs } = settings;
  const leases =
    settings.store.kind === 'redis'
      ? new LeasingStore(cache ?? store, { clock, maxLeases: MAX_LEASES, idleMs: LEASE_IDLE_MS })
      : undefined;
  const guard = createGuard(leases ?? cache ?? store, {
    clock,
    maxCounters,
    timeoutMs,
    lookIntervalMs: LOOK_INTERVAL_MS,
  });
  return { store: guard, cache, breakers, leases, description };
}

type Backend = Pick<OpenStore, 'store' | 'description'>;

async function openBackend(settings: Settings, clock: Clock, breakers: Breakers, log: Logger): Promise<Backend> {
  const { store: wanted, MEMORY_MAX_COUNTERS: maxCounters } = settings;
  switch (wanted.kind) {
    case 'memory':
      return { store: createMemoryStore(clock, { maxCounters }), description: `in memory, at most ${maxCounters}` };
    case 'redis': {
      const others = await openRedis('REDIS_URL', wanted.main, settings, clock, breakers, log);
      if (!wanted.perSecond) return { ...others, description: `in Redis: ${others.description}` };
      const perSecond = await openRedis('REDIS_PERSECOND_URL', wanted.perSecond, settings, clock, breakers, log);
      return {
        store: createPerSecondStore({ perSecond: perSecond.store, others: others.store }),
        description: `in Redis: ${others.description}; by the second: ${perSecond.description}`,
      };
    }
    case 'memcache':
      return openMemcached(wanted, clock, log);
  }
}

async function openRedis(
  variable: string,
  redisSettings: RedisSettings,
  settings: Settings,
  clock: Clock,
  breakers: Breakers,
  log: Logger,
) {
  const { address } = redisSettings;
  const description = describeAddress(address);
  const { REDIS_STARTUP_INITIAL_INTERVAL: initialMs, REDIS_STARTUP_MAX_INTERVAL: maxMs } = settings;
  const redis = await start(variable, 'cannot be used', () =>
    connect({ ...redisSettings, startup: { initialMs, maxMs } }),
  );
  let troubled = false;
  redis.on('ready', () => {
    if (troubled) log.warn(`connected to ${description} again`);
    else log.info(`connected to ${description}`);
    troubled = false;
  });
  redis.on('error', (error: Error) => {
    if (!troubled) log.error(`no connection to ${description}: ${error.message}; trying again until there is one`);
    troubled = true;
  });
  const isSpread =
    address.kind === 'cluster' && !(settings.CLUSTER_HASH_TAG === 'domain' && settings.COUNTER_KEYS === 'own');
  const atomic = isSpread ? 'counter' : 'request';
  const options = { atomic, name: description, slowMs: Math.max(settings.STORE_TIMEOUT, 1), breakers } as const;
  return { store: createRedisStore(redis, clock, options), description };
}

async function openMemcached(
  { servers, tls }: Extract<StoreSettings, { kind: 'memcache' }>,
  clock: Clock,
  log: Logger,
): Promise<Backend> {
  const options = {
    servers,
    onDown: (server: string, error: Error) => log.error(`memcached ${server}: ${error.message}; trying again`),
    onUp: (server: string) => log.warn(`memcached ${server} answers again`),
  };
  const opened = await start('MEMCACHE_HOST_PORT', 'cannot be used', () =>
    openServers({ ...options, tls: tls && tlsOptions(tls) }),
  );
  const names = 'srv' in servers ? `the servers of ${servers.srv}` : servers.join(', ');
  return { store: createMemcachedStore(opened, clock), description: `in memcached at ${names}` };
}

/** What rules may ask of the counters. */
export function traitsOf({ store: { kind }, WORKERS, spend }: Settings, { store }: OpenStore): StoreTraits {
  const names = { memory: 'memory', redis: 'these Redis', memcache: 'memcached' };
  return {
    name: names[kind],
    atomic: store.atomic,
    without: kind === 'memcache' ? ['sliding_window_log'] : [],
    leases: kind === 'redis',
    processes: WORKERS,
    spend,
  };
}

/** @throws CannotStart  sets of limits are wanted where each counter is a step by itself */
export function checkSpend({ SPEND, spend, store: { kind } }: Settings, { store }: OpenStore, log: Logger): void {
  if (spend === 'each' || store.atomic === 'request') return;
  const how = kind === 'redis' ? 'one Redis, or a Cluster with CLUSTER_HASH_TAG=domain and COUNTER_KEYS=own' : 'Redis';
  const reason = `it takes counters that are counted in one step for each request: ${how}`;
  if (SPEND !== undefined) throw new CannotStart(`SPEND: ${spend} is not possible here, since ${reason}`);
  if (kind === 'redis') log.warn(`STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT holds only in part, since ${reason}`);
}

/** How counters are found. */
export function countersOf(settings: Settings, clock: Clock): Counters {
  const { CACHE_KEY_PREFIX: prefix, COUNTER_KEYS, EXPIRATION_JITTER_MAX_SECONDS: jitterMaxSeconds } = settings;
  const own = createCounterKeys(prefix, { hashTag: settings.CLUSTER_HASH_TAG });
  if (COUNTER_KEYS === 'own') return ownCounters(own);
  return sharedCounters({ prefix, own, jitterMaxSeconds, clock, random: Math.random });
}

/** How long a start waits for the counters, so that its first answers are not failures. */
const START_WAIT_MS = 1_000;

/** Waits until the counters can be reached, for a moment: a service without them starts as well. */
export async function awaitStore({ store }: OpenStore): Promise<void> {
  for (let waitedMs = 0; !store.state().ready && waitedMs < START_WAIT_MS; waitedMs += START_LOOK_MS)
    await sleep(START_LOOK_MS);
}
const START_LOOK_MS = 5;

/** How often it is looked whether the counters have been reached. */
const LOOK_INTERVAL_MS = 100;

/** Resolves when the counters were not reached even once within this time of the start; 0: never. */
export function whenNeverReached(maxElapsedMs: number, { store, description }: OpenStore): Promise<CannotStart> {
  return new Promise((resolve) => {
    if (maxElapsedMs === 0) return;
    const end = setTimeout(() => {
      clearInterval(look);
      const message = `counters ${description} could not be reached within ${maxElapsedMs} ms of the start`;
      resolve(new CannotStart(`REDIS_STARTUP_MAX_ELAPSED_TIME: ${message}`));
    }, maxElapsedMs).unref();
    const look = setInterval(() => {
      if (!store.state().ready) return;
      clearTimeout(end);
      clearInterval(look);
    }, LOOK_INTERVAL_MS).unref();
  });
}
