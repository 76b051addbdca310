import { MemcachedBackend } from '../../engine/backends/memcached/backend.ts';
import { referenceCounters } from '../../engine/backends/memcached/reference.ts';
import { openServers } from '../../engine/backends/memcached/servers.ts';
import { tlsOptions } from '../../engine/backends/tls.ts';
import { createOutageLog, createSeldomLog } from '../../operate/observe/seldom-log.ts';
import type { Settings } from '../../settings/settings.ts';
import type { StoreSettings } from '../../settings/stores.ts';
import { start } from '../parts/start-up.ts';
import type { BackendContext, OpenBackends } from './open-backends.ts';

/** @throws CannotStart if a certificate file cannot be read */
export async function openMemcachedBackend(
  { servers, tls }: Extract<StoreSettings, { kind: 'memcache' }>,
  { keys }: Settings['counters'],
  { clock, monotonicMs, lateness, log }: BackendContext,
): Promise<OpenBackends> {
  const outages = createOutageLog(createSeldomLog(monotonicMs));
  const opened = await start('MEMCACHE_HOST_PORT', 'cannot be used', () =>
    openServers({
      ...{ servers, monotonicMs },
      onDown(server: string, { message }: Error) {
        outages.failed(server, message, () => log.error(`memcached ${server}: ${message}; retrying`));
      },
      onUp(server: string) {
        if (outages.recovered(server)) log.warn(`memcached ${server} answers again`);
      },
      tls: tls && tlsOptions(tls, (problem) => log.error(`memcached: ${problem}`)),
    }),
  );
  const names = 'srv' in servers ? `the servers of ${servers.srv}` : servers.join(', ');
  const foreign = keys.kind === 'reference' ? referenceCounters : undefined;
  const main = new MemcachedBackend(opened, { clock, monotonicMs }, lateness, foreign);
  return { backends: { main }, description: `in memcached at ${names}` };
}
