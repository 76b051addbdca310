import type { Environment } from '../../src/settings/near-misses.ts';
import { type Loss, type LossyProxy, startLossyProxy } from './lossy-proxy.ts';
import { startMemcached } from './memcached.ts';
import { startRedis } from './redis.ts';
import { startCluster, startWatched } from './redis-topologies.ts';
import type { Stoppable } from './stoppable.ts';
import { eventually } from './until.ts';

/** A store with a proxy before each of its servers, and one process for each. */
export interface LossyStore {
  /** The service's settings for it. */
  readonly env: Environment;
  lose(what: Loss | undefined): void;
  /** Stops all servers (SIGSTOP). */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

type Server = Stoppable & { readonly port: number };

function lossyStore(
  env: Environment,
  servers: readonly Server[],
  proxies: readonly LossyProxy[],
  stop: () => Promise<unknown>,
): LossyStore {
  return {
    env,
    lose(what) {
      for (const proxy of proxies) proxy.lose(what);
    },
    pause() {
      for (const server of servers) server.pause();
    },
    resume() {
      for (const server of servers) server.resume();
    },
    async stop() {
      await Promise.all(proxies.map((proxy) => proxy.close()));
      await stop();
    },
  };
}

/** Longer than any test: no replica takes over, so that no counter is lost. */
const NEVER_DOWN_MS = 600_000;

export const lossyStores = {
  async single() {
    const redis = await startRedis();
    const proxy = await startLossyProxy(redis.port);
    return lossyStore({ REDIS_URL: `127.0.0.1:${proxy.port}` }, [redis], [proxy], redis.stop);
  },

  async sentinel() {
    const proxies: LossyProxy[] = [];
    const { name, master, sentinelPort, stop } = await startWatched('', [], {
      downAfterMs: NEVER_DOWN_MS,
      async portOf({ port }) {
        const proxy = await startLossyProxy(port);
        proxies.push(proxy);
        return proxy.port;
      },
    });
    const env = { REDIS_TYPE: 'SENTINEL', REDIS_URL: `${name},127.0.0.1:${sentinelPort}` };
    return lossyStore(env, [master], proxies, stop);
  },

  async cluster() {
    const { nodes, clients, stop } = await startCluster({ nodeTimeoutMs: NEVER_DOWN_MS });
    const proxies = await Promise.all(nodes.map(({ port }) => startLossyProxy(port)));
    for (const [at, { port }] of proxies.entries()) await clients[at]?.config('SET', 'cluster-announce-port', port);
    for (const client of clients)
      await eventually(async () => {
        const slots = JSON.stringify(await client.call('CLUSTER', 'SLOTS'));
        return proxies.every(({ port }) => slots.includes(`,${port},`));
      });
    const env = { REDIS_TYPE: 'CLUSTER', REDIS_URL: proxies.map(({ port }) => `127.0.0.1:${port}`).join(',') };
    return lossyStore(env, nodes, proxies, stop);
  },

  async memcached() {
    const server = await startMemcached();
    const proxy = await startLossyProxy(server.port);
    const env = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: `127.0.0.1:${proxy.port}` };
    return lossyStore(env, [server], [proxy], server.stop);
  },
} as const satisfies Readonly<Record<string, () => Promise<LossyStore>>>;
