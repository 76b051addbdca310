import { algorithmNames, rowOf } from '../engine/algorithms/index.ts';
import type { RedisAddress } from '../engine/backends/redis/address.ts';
import type { StoreTraits } from '../engine/rules/compile/fit.ts';
import type { Settings } from './settings.ts';

/** The capabilities of the configured store, without opening it. */
export function traitsOf(options: Settings['counters']): StoreTraits {
  const { store, spend } = options;
  const names = { memory: 'memory', redis: 'these Redis', memcache: 'memcached' };
  return {
    name: names[store.kind],
    atomic: atomicOf(options),
    without: store.kind === 'memcache' ? algorithmNames.filter((name) => rowOf(name).hasLongState) : [],
    leases: store.kind === 'redis',
    spend,
    split: options.split,
  };
}

/** Whether a request or each of its counters is one atomic step. */
function atomicOf({ store, keys }: Settings['counters']): StoreTraits['atomic'] {
  if (store.kind === 'memory') return 'request';
  if (store.kind === 'memcache' || store.perSecond) return 'counter';
  return atomicOfRedis(store.main.address, keys);
}

/** Keys of one request may be on several nodes of a Cluster, unless all keys of a domain are on one. */
export function atomicOfRedis(
  { kind }: Pick<RedisAddress, 'kind'>,
  keys: Pick<Settings['counters']['keys'], 'kind' | 'hashTag'>,
): StoreTraits['atomic'] {
  return kind === 'cluster' && !(keys.hashTag === 'domain' && keys.kind === 'own') ? 'counter' : 'request';
}

/** Why the configured spend cannot be applied; `isFatal`: the service does not start. */
interface SpendProblem {
  readonly isFatal: boolean;
  readonly message: string;
}

/** @returns undefined if it can be applied */
export function spendProblemOf(options: Settings['counters']): SpendProblem | undefined {
  const { isSpendSet, spend, store } = options;
  if (spend === 'each' || atomicOf(options) === 'request') return undefined;
  const how =
    store.kind === 'redis' ? 'one Redis, or a Cluster with CLUSTER_HASH_TAG=domain and COUNTER_KEYS=own' : 'Redis';
  const reason = `it requires counters with one atomic step per request: ${how}`;
  if (isSpendSet) return { isFatal: true, message: `SPEND: ${spend} is not possible here, since ${reason}` };
  if (store.kind !== 'redis') return undefined;
  const message = `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT applies only partly, since ${reason}`;
  return { isFatal: false, message };
}
