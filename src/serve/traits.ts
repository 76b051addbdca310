import type { RedisAddress } from '../backends/redis/address.ts';
import type { StoreTraits } from '../rules/fit.ts';
import type { Settings } from '../settings.ts';

/** What rules may ask of the counters that the settings choose, without opening them. */
export function traitsOf(settings: Settings): StoreTraits {
  const { store, WORKERS, spend } = settings;
  const names = { memory: 'memory', redis: 'these Redis', memcache: 'memcached' };
  return {
    name: names[store.kind],
    atomic: atomicOf(settings),
    without: store.kind === 'memcache' ? ['sliding_window_log'] : [],
    leases: store.kind === 'redis',
    processes: WORKERS,
    spend,
  };
}

/** What one request is atomic over: itself, or each of its counters. */
function atomicOf(settings: Settings): StoreTraits['atomic'] {
  const { store } = settings;
  if (store.kind === 'memory') return 'request';
  if (store.kind === 'memcache' || store.perSecond) return 'counter';
  return atomicOfRedis(store.main.address, settings);
}

/** Keys of one request may lie on several nodes of a Cluster, unless all of a domain lie on one. */
export function atomicOfRedis(
  { kind }: Pick<RedisAddress, 'kind'>,
  { CLUSTER_HASH_TAG: hashTag, COUNTER_KEYS: keys }: Pick<Settings, 'CLUSTER_HASH_TAG' | 'COUNTER_KEYS'>,
): StoreTraits['atomic'] {
  return kind === 'cluster' && !(hashTag === 'domain' && keys === 'own') ? 'counter' : 'request';
}

/** Why a set of limits cannot be counted as the settings ask for; `isFatal`: the service does not start. */
export interface SpendProblem {
  readonly isFatal: boolean;
  readonly message: string;
}

/** Undefined: it can. */
export function spendProblemOf(settings: Settings): SpendProblem | undefined {
  const { SPEND, spend, store } = settings;
  if (spend === 'each' || atomicOf(settings) === 'request') return undefined;
  const how =
    store.kind === 'redis' ? 'one Redis, or a Cluster with CLUSTER_HASH_TAG=domain and COUNTER_KEYS=own' : 'Redis';
  const reason = `it takes counters that are counted in one step for each request: ${how}`;
  if (SPEND !== undefined) return { isFatal: true, message: `SPEND: ${spend} is not possible here, since ${reason}` };
  if (store.kind !== 'redis') return undefined;
  const message = `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT holds only in part, since ${reason}`;
  return { isFatal: false, message };
}
