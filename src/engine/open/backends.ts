import { randomUUID } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { otherStores } from '../../parts/stores.ts';
import { type Counters, createCounterKeys, ownCounters } from '../backends/key.ts';
import { createMemoryBackend } from '../backends/memory/backend.ts';
import { sharedCounters } from '../backends/shared-counters.ts';
import { MemoryUsage } from '../backends/usage.ts';
import type { BackendContext, OpenBackends } from './open-backends.ts';
import { type CounterOptions, InvalidOptions, keyOptions, memoryBounds } from './options.ts';

/**
 * Loads only the client of the chosen store.
 *
 * @throws InvalidOptions
 */
export async function openBackends(options: CounterOptions, context: BackendContext): Promise<OpenBackends> {
  const { store = 'memory' } = options;
  if (store === 'memory') {
    if (keyOptions(options).kind === 'reference')
      throw new InvalidOptions('keys.kind', 'reference requires Redis or memcached');
    const bounds = memoryBounds(options);
    const usage = options.usage ? new MemoryUsage(context.clock, randomUUID) : undefined;
    const main = createMemoryBackend(context.clock, bounds, { usage });
    return {
      backends: { main },
      memory: main,
      usage: usage && [usage],
      description: `in memory, at most ${bounds.maxCounters}`,
    };
  }
  if ('redis' in store) {
    const open = await otherStores.redis?.();
    if (!open) throw new InvalidOptions('store.redis', 'this build has no client for Redis');
    return open(store, options, context);
  }
  if ('memcached' in store) {
    const open = await otherStores.memcached?.();
    if (!open) throw new InvalidOptions('store.memcached', 'this build has no client for memcached');
    return open(store, options, context);
  }
  return { backends: { main: store.backend }, description: 'in a store of the caller' };
}

/** Finds the counters of limits. */
export function openCounters(options: CounterOptions, clock: Clock): Counters {
  const keys = keyOptions(options);
  const own = createCounterKeys(keys.prefix, keys);
  if (keys.kind === 'own') return ownCounters(own);
  return sharedCounters({ ...keys, own, clock, random: Math.random });
}
