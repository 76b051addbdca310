import { algorithmNames, rowOf } from '../algorithms/index.ts';
import type { RedisAddress } from '../backends/redis/address.ts';
import type { StoreTraits } from '../rules/fit.ts';
import type { Settings } from '../settings.ts';

/** The capabilities of the configured store, without opening it. */
export function traitsOf(settings: Settings): StoreTraits {
  const { store, WORKERS, spend } = settings;
  const names = { memory: 'memory', redis: 'these Redis', memcache: 'memcached' };
  return {
    name: names[store.kind],
    atomic: atomicOf(settings),
    without: store.kind === 'memcache' ? algorithmNames.filter((name) => rowOf(name).hasLongState) : [],
    leases: store.kind === 'redis',
    processes: WORKERS,
    spend,
  };
}

/** Whether a request or each of its counters is one atomic step. */
function atomicOf(settings: Settings): StoreTraits['atomic'] {
  const { store } = settings;
  if (store.kind === 'memory') return 'request';
  if (store.kind === 'memcache' || store.perSecond) return 'counter';
  return atomicOfRedis(store.main.address, settings);
}

/** Keys of one request may be on several nodes of a Cluster, unless all keys of a domain are on one. */
export function atomicOfRedis(
  { kind }: Pick<RedisAddress, 'kind'>,
  { CLUSTER_HASH_TAG: hashTag, COUNTER_KEYS: keys }: Pick<Settings, 'CLUSTER_HASH_TAG' | 'COUNTER_KEYS'>,
): StoreTraits['atomic'] {
  return kind === 'cluster' && !(hashTag === 'domain' && keys === 'own') ? 'counter' : 'request';
}

/** Why the configured spend cannot be applied; `isFatal`: the service does not start. */
export interface SpendProblem {
  readonly isFatal: boolean;
  readonly message: string;
}

/** @returns undefined if it can be applied */
export function spendProblemOf(settings: Settings): SpendProblem | undefined {
  const { SPEND, spend, store } = settings;
  if (spend === 'each' || atomicOf(settings) === 'request') return undefined;
  const how =
    store.kind === 'redis' ? 'one Redis, or a Cluster with CLUSTER_HASH_TAG=domain and COUNTER_KEYS=own' : 'Redis';
  const reason = `it requires counters with one atomic step per request: ${how}`;
  if (SPEND !== undefined) return { isFatal: true, message: `SPEND: ${spend} is not possible here, since ${reason}` };
  if (store.kind !== 'redis') return undefined;
  const message = `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT applies only partly, since ${reason}`;
  return { isFatal: false, message };
}
