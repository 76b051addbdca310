import type { Clock } from '../../base/clock.ts';
import { type Counters, createCounterKeys, ownCounters } from '../../engine/backends/key.ts';
import { createMemoryBackend } from '../../engine/backends/memory/backend.ts';
import { sharedCounters } from '../../engine/backends/shared-counters.ts';
import type { Settings } from '../../settings/settings.ts';
import type { BackendContext, OpenBackends } from './open-backends.ts';

/**
 * Loads only the client library of the configured store.
 *
 * @throws CannotStart if a certificate file cannot be read
 */
export async function openBackends(options: Settings['counters'], context: BackendContext): Promise<OpenBackends> {
  switch (options.store.kind) {
    case 'memory': {
      const main = createMemoryBackend(context.clock, options.memory);
      return {
        ...{ backends: { main }, memory: main, description: `in memory, at most ${options.memory.maxCounters}` },
        openShares: async (terms, maxBytes) =>
          new (await import('../../engine/shares/share-store.ts')).MemoryShares(context.clock, terms, maxBytes),
      };
    }
    case 'redis': {
      const { openRedisBackends } = await import('./redis.ts');
      return openRedisBackends(options.store, options, context);
    }
    case 'memcache': {
      const { openMemcachedBackend } = await import('./memcached.ts');
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
