import type { OpenLeases } from '../engine/ledger/leases.ts';
import type { BackendContext, OpenBackends } from '../engine/open/open-backends.ts';
import type { CounterOptions, MemcachedStore } from '../engine/open/options.ts';

type OpenMemcached = (store: MemcachedStore, options: CounterOptions, context: BackendContext) => Promise<OpenBackends>;

/** Functions that load stores besides memory and Redis: a list for the engine alone, since it is also a library. */
export const otherStores: { readonly memcached?: () => Promise<OpenMemcached> } = {
  memcached: async () => (await import('./memcached/open.ts')).openMemcachedBackend,
};

/** Functions that load what answers hits without a call to Redis. */
export const besideRedis: {
  readonly leases?: () => Promise<(bounds: Pick<CounterOptions, 'maxLeases'>) => OpenLeases>;
} = {
  leases: async () => (await import('./leases/leases.ts')).leasesWithin,
};
