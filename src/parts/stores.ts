import type { OpenLeases } from '../engine/ledger/leases.ts';
import type { BackendContext, OpenBackends } from '../engine/open/open-backends.ts';
import type { CounterOptions, MemcachedStore, RedisStore } from '../engine/open/options.ts';

type OpenStore<S> = (store: S, options: CounterOptions, context: BackendContext) => Promise<OpenBackends>;

/** Functions that load stores besides memory: a list for the engine alone, since it is also a library. */
export const otherStores: {
  readonly redis?: () => Promise<OpenStore<RedisStore>>;
  readonly memcached?: () => Promise<OpenStore<MemcachedStore>>;
} = {
  redis: async () => (await import('./redis/open.ts')).openRedisBackends,
  memcached: async () => (await import('./memcached/open.ts')).openMemcachedBackend,
};

/** Functions that load what answers hits without a call to Redis. */
export const besideRedis: {
  readonly leases?: () => Promise<(bounds: Pick<CounterOptions, 'maxLeases'>) => OpenLeases>;
} = {
  leases: async () => (await import('./leases/leases.ts')).leasesWithin,
};
