import { resolveSrv } from 'node:dns/promises';
import type { ConnectionOptions } from 'node:tls';
import { crc32 } from 'node:zlib';
import type { Monotonic } from '../../base/clock.ts';
import type { BackendHealth } from '../../engine/backends/backend.ts';
import { createMemcachedClient, type MemcachedClient } from './client.ts';

/** Servers among which keys are distributed. */
export type MemcachedServers = ReturnType<typeof openServers>;

interface ServersOptions {
  /** `host:port` each, or the DNS record that names them and its refresh interval; 0 resolves it only until found. */
  readonly servers: readonly string[] | { readonly srv: string; readonly refreshMs: number };
  readonly tls: ConnectionOptions | undefined;
  readonly monotonicMs: Monotonic;
  /** Called with each failure, and when a server or the record becomes usable, respectively. */
  onDown(server: string, error: Error): void;
  onUp(server: string): void;
  /** Called with each error reply of a server. */
  onRefusal?(server: string, reason: string): void;
  /** Only for tests. */
  readonly resolveSrvRecord?: (name: string) => Promise<readonly { readonly name: string; readonly port: number }[]>;
}

/** The wait before a record that was never found is resolved again. */
const RESOLVE_RETRY_MS = 1_000;

/** @throws Error  invalid address */
export function openServers(options: ServersOptions) {
  const { servers, resolveSrvRecord = resolveSrv } = options;
  let clients = new Map<string, MemcachedClient>();
  let names: readonly string[] = [];
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;
  let resolveError = 'not resolved yet';

  const use = (addresses: readonly string[]): void => {
    const kept = new Map(addresses.map((address) => [address, clients.get(address) ?? openClient(address, options)]));
    for (const [address, client] of clients) if (!kept.has(address)) client.close();
    clients = kept;
    names = addresses;
  };

  const refresh = async (srv: string, refreshMs: number): Promise<void> => {
    let waitMs = refreshMs;
    try {
      const found = await resolveSrvRecord(srv);
      if (isClosed) return;
      if (found.length === 0) throw new Error('it lists no servers');
      use(found.map(({ name, port }) => `${name}:${port}`).sort()); // the same order for every instance
      options.onUp(srv);
    } catch (error) {
      resolveError = error instanceof Error ? error.message : String(error);
      options.onDown(srv, new Error(resolveError)); // keeps the known servers
      if (names.length === 0) waitMs = RESOLVE_RETRY_MS;
    }
    if (waitMs > 0 && !isClosed) timer = setTimeout(() => refresh(srv, refreshMs), waitMs).unref();
  };

  if ('srv' in servers) refresh(servers.srv, servers.refreshMs);
  else use(servers);

  return {
    /** The server of a key; undefined while no servers are known. */
    of: (key: string) => clients.get(names[names.length > 1 ? crc32(key) % names.length : 0] ?? ''),
    health(): BackendHealth {
      if (names.length === 0) return { ready: false, reason: resolveError };
      const states = Array.from(clients.values(), (client) => client.health());
      return states.find(({ ready }) => !ready) ?? { ready: true };
    },
    close(): void {
      isClosed = true;
      clearTimeout(timer);
      for (const client of clients.values()) client.close();
    },
  };
}

function openClient(address: string, { tls, monotonicMs, onDown, onUp, onRefusal }: ServersOptions): MemcachedClient {
  const [, host = '', port = ''] = /^\[?(.+?)\]?:(\d+)$/.exec(address) ?? [];
  if (host === '' || Number(port) > 65_535) throw new Error(`a memcached server must be host:port, got '${address}'`);
  return createMemcachedClient({
    host,
    port: Number(port),
    tls,
    monotonicMs,
    onReady: () => onUp(address),
    onError: (error) => onDown(address, error),
    onRefusal: (reason) => onRefusal?.(address, reason),
  });
}
