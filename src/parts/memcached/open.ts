import { tlsOptions } from '../../engine/backends/tls.ts';
import type { BackendContext, OpenBackends } from '../../engine/open/open-backends.ts';
import { type CounterOptions, InvalidOptions, type MemcachedStore } from '../../engine/open/options.ts';
import { MemcachedBackend } from './backend.ts';
import { type MemcachedServers, openServers } from './servers.ts';

/** @throws InvalidOptions  an address is malformed, or a certificate file cannot be read */
export async function openMemcachedBackend(
  store: MemcachedStore,
  _: CounterOptions,
  context: BackendContext,
): Promise<OpenBackends> {
  const { clock, monotonicMs, lateness } = context;
  const { memcached: servers } = store;
  const names = 'srv' in servers ? `the servers of ${servers.srv}` : servers.join(', ');
  const main = new MemcachedBackend(open(store, context), { clock, monotonicMs }, lateness);
  return { backends: { main }, description: `in memcached at ${names}` };
}

function open(
  { memcached: servers, tls }: MemcachedStore,
  { monotonicMs, onStoreEvent }: BackendContext,
): MemcachedServers {
  try {
    return openServers({
      servers,
      monotonicMs,
      onDown: (server: string, { message: reason }: Error) => onStoreEvent({ kind: 'down', server, reason }),
      onUp: (server: string) => onStoreEvent({ kind: 'up', server }),
      onRefusal: (server: string, reason: string) => onStoreEvent({ kind: 'refuses_calls', server, reason }),
      tls: tls && tlsOptions(tls, (reason) => onStoreEvent({ kind: 'invalid_tls', server: 'memcached', reason })),
    });
  } catch (error) {
    throw new InvalidOptions('store.memcached', error instanceof Error ? error.message : String(error));
  }
}
