import type { BackendContext, OpenBackends } from '../engine/open/open-backends.ts';
import type { CounterOptions, MemcachedStore } from '../engine/open/options.ts';

type OpenMemcached = (store: MemcachedStore, options: CounterOptions, context: BackendContext) => Promise<OpenBackends>;

/** Functions that load stores besides memory and Redis: a list of its own, since the engine is also a library. */
export const otherStores: { readonly memcached?: () => Promise<OpenMemcached> } = {
  memcached: async () => (await import('./memcached/open.ts')).openMemcachedBackend,
};
