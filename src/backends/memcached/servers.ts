import { resolveSrv } from 'node:dns/promises';
import type { ConnectionOptions } from 'node:tls';
import { crc32 } from 'node:zlib';
import type { Monotonic } from '../../clock.ts';
import type { BackendHealth } from '../backend.ts';
import { createMemcachedClient, type MemcachedClient } from './client.ts';

/** Servers that share the keys between them. */
export interface MemcachedServers {
  /** The one that has the key; undefined while none is known. */
  of(key: string): MemcachedClient | undefined;
  health(): BackendHealth;
  close(): void;
}

export interface ServersOptions {
  /** `host:port` each, or the DNS record that names them and how often it is resolved; 0: only until it is found. */
  readonly servers: readonly string[] | { readonly srv: string; readonly refreshMs: number };
  readonly tls: ConnectionOptions | undefined;
  readonly monotonicMs: Monotonic;
  /** Called once per outage, and once when it ends. */
  onDown(server: string, error: Error): void;
  onUp(server: string): void;
  /** Only for tests. */
  readonly resolveSrvRecord?: (name: string) => Promise<readonly { readonly name: string; readonly port: number }[]>;
}

/** How soon a record that has never been found is resolved again. */
const RESOLVE_RETRY_MS = 1_000;

/** @throws Error  an address that is none */
export function openServers(options: ServersOptions): MemcachedServers {
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
      if (found.length === 0) throw new Error('it names no server');
      use(found.map(({ name, port }) => `${name}:${port}`).sort()); // the same order for every instance
      options.onUp(srv);
    } catch (error) {
      resolveError = error instanceof Error ? error.message : String(error);
      options.onDown(srv, new Error(resolveError)); // those known so far stay
      if (names.length === 0) waitMs = RESOLVE_RETRY_MS;
    }
    if (waitMs > 0 && !isClosed) timer = setTimeout(() => refresh(srv, refreshMs), waitMs).unref();
  };

  if ('srv' in servers) refresh(servers.srv, servers.refreshMs);
  else use(servers);

  return {
    of: (key) => clients.get(names[names.length > 1 ? crc32(key) % names.length : 0] ?? ''),
    health() {
      if (names.length === 0) return { ready: false, reason: resolveError };
      const states = Array.from(clients.values(), (client) => client.health());
      return states.find(({ ready }) => !ready) ?? { ready: true };
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
      for (const client of clients.values()) client.close();
    },
  };
}

function openClient(address: string, { tls, monotonicMs, onDown, onUp }: ServersOptions): MemcachedClient {
  const [, host = '', port = ''] = /^\[?(.+?)\]?:(\d+)$/.exec(address) ?? [];
  if (host === '' || Number(port) > 65_535) throw new Error(`a memcached server must be host:port, got '${address}'`);
  let isDown = false;
  return createMemcachedClient({
    host,
    port: Number(port),
    tls,
    monotonicMs,
    onReady() {
      if (isDown) onUp(address);
      isDown = false;
    },
    onError(error) {
      if (!isDown) onDown(address, error);
      isDown = true;
    },
  });
}
