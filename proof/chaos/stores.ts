import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { Redis as Client } from 'ioredis';
import { type LossyProxy, startLossyProxy } from '../../test/helpers/lossy-proxy.ts';
import { startMemcached } from '../../test/helpers/memcached.ts';
import { type Redis, startRedis } from '../../test/helpers/redis.ts';
import { startCluster, startWatched } from '../../test/helpers/redis-topologies.ts';
import type { Stoppable } from '../../test/helpers/stoppable.ts';
import { redis6Server, redisServer } from '../../test/helpers/tools.ts';
import { until } from '../../test/helpers/until.ts';
import type { Topology } from './rules.ts';

const RECOVERY_LIMIT_MS = 150_000;

/** A server with counters. */
export interface ChaosServer extends Stoppable {
  readonly port: number;
}

/** The store of a run's counters. */
export interface ChaosStore {
  /** Settings of the service for this store. */
  readonly env: Readonly<Record<string, string>>;
  /** Settings with which its requests pass through proxies; with several servers, all requests do. */
  readonly lossyEnv: Readonly<Record<string, string>>;
  /** The proxies. */
  readonly proxies: readonly LossyProxy[];
  /** The servers that currently hold counters, without replicas. */
  masters(): Promise<readonly ChaosServer[]>;
  /** Deletes all counters. */
  flush(): Promise<void>;
  /** Deletes the persisted data of a stopped server. */
  forget(): void;
  /** Resolves when each master has a replica that can take over. */
  whole(): Promise<void>;
  /** Resolves when another server has replaced a master. */
  replaced(master: ChaosServer): Promise<void>;
  /** Resolves when a replaced server has become a replica. */
  rejoined(server: ChaosServer): Promise<void>;
  stop(): Promise<void>;
}

/** How long a server may take to do what a fault needs while it is busy or starting. */
const COMMAND_TIMEOUT_MS = 100_000;
/** How long a server may take to report its state; a frozen one never does. */
const STATE_TIMEOUT_MS = 10_000;
/** Silence of a master after which a sentinel replaces it; a busy one may be silent for a while. */
const DOWN_AFTER_MS = 1_500;

/** Sends one command to a server; rejects without an answer. */
export const command = (server: Pick<Redis, 'port'>, name: string, ...args: readonly (string | number)[]) =>
  answerTo(server, [name, ...args], COMMAND_TIMEOUT_MS);

/** As `command`, for a question to a server that may be frozen. */
const ask = (server: Pick<Redis, 'port'>, name: string, ...args: readonly (string | number)[]) =>
  answerTo(server, [name, ...args], STATE_TIMEOUT_MS);

async function answerTo(
  { port }: Pick<Redis, 'port'>,
  [name, ...args]: readonly [string, ...(string | number)[]],
  commandTimeout: number,
): Promise<unknown> {
  const client = new Client(port, '127.0.0.1', {
    replyMapping: 'legacy',
    retryStrategy: () => null,
    commandTimeout,
    enableReadyCheck: false,
  });
  client.on('error', () => {}); // the command reports it
  try {
    return await client.call(name, ...args);
  } finally {
    client.disconnect();
  }
}

/** @param folder  the run's folder, below which servers may keep data */
export const startStore: { readonly [T in Topology]: (folder: string) => Promise<ChaosStore> } = {
  single: async (folder) => startSingle(folder, await redisServer()),
  redis6: async (folder) => startSingle(folder, await redis6Server()),

  memcached: () => startOneMemcached(),

  sentinel: () => startSentinel(true),

  async cluster(folder) {
    const data = join(folder, 'redis');
    mkdirSync(data);
    const { nodes: firstMasters, replicas, clients, stop } = await startCluster({ withReplicas: true, folder: data });
    const nodes = [...firstMasters, ...replicas];
    for (const client of clients) client.disconnect(); // nodes will go down
    const proxies = await announceProxies(nodes);
    const env = {
      REDIS_TYPE: 'CLUSTER',
      REDIS_URL: [...nodes, ...proxies].map(({ port }) => `127.0.0.1:${port}`).join(','),
    };
    const half = nodes.length / 2;
    const masters = () => those(nodes, isMaster);
    const isUp = async (node: Redis) => String(await ask(node, 'CLUSTER', 'INFO')).includes('cluster_state:ok');
    return {
      env,
      lossyEnv: env,
      proxies,
      masters,
      flush: () => flushEach(masters),
      ...withoutForgetting,
      whole: () =>
        recovered('a replica for each master', async () => {
          const counts = [await masters(), await those(nodes, isReplica), await those(nodes, isUp)];
          return counts.map(({ length }) => length).join() === [half, half, nodes.length].join();
        }),
      replaced: (dead) =>
        recovered('another master', async () => {
          const others = nodes.filter((node) => node !== dead);
          const counts = [await those(others, isMaster), await those(others, isUp)];
          return counts.map(({ length }) => length).join() === [half, others.length].join();
        }),
      rejoined: (server) => recovered('a replica again', () => isReplica(server)),
      stop: closing(proxies, stop),
    };
  },
};

/**
 * Starts a master, its replica and a sentinel.
 *
 * @param isProxied  whether clients and the sentinel reach the first master through a proxy
 */
export async function startSentinel(isProxied: boolean): Promise<ChaosStore> {
  const proxies: LossyProxy[] = [];
  const { name, master, replica, sentinelPort, stop } = await startWatched('', [], {
    downAfterMs: DOWN_AFTER_MS,
    async portOf({ port }) {
      if (!isProxied) return port;
      const proxy = await startLossyProxy(port);
      proxies.push(proxy);
      return proxy.port;
    },
  });
  const env = { REDIS_TYPE: 'SENTINEL', REDIS_URL: `${name},127.0.0.1:${sentinelPort}` };
  const servers = [master, replica];
  const sentinel = { port: sentinelPort };
  const otherThan = (server: ChaosServer): Redis => (server === master ? replica : master);
  const knownPort = ({ port }: Redis): number => (port === master.port ? (proxies[0]?.port ?? port) : port);
  /** The sentinel would demote a master that it also knows as a replica, under another address. */
  const announce = () => command(master, 'CONFIG', 'SET', 'replica-announce-port', knownPort(master));
  await announce();
  return {
    env,
    lossyEnv: env,
    proxies,
    masters: () => those(servers, isMaster),
    flush: () => flushEach(() => those(servers, isMaster)),
    ...withoutForgetting,
    whole: () =>
      recovered('a replica that the sentinel knows', async () => {
        const replicas = (await ask(sentinel, 'SENTINEL', 'REPLICAS', name)) as readonly (readonly string[])[]; // by its documentation
        const has = (fields: readonly string[], field: string, value: string) =>
          fields[fields.indexOf(field) + 1] === value;
        return replicas.some((fields) => has(fields, 'flags', 'slave') && has(fields, 'master-link-status', 'ok'));
      }),
    replaced: (dead) =>
      recovered('another master', async () => {
        const address = await ask(sentinel, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name);
        const other = otherThan(dead);
        return String(address) === `127.0.0.1,${knownPort(other)}` && (await isMaster(other));
      }),
    async rejoined(server) {
      if (server === master) await announce();
      await recovered('a replica again', async () => {
        if (await isReplica(server)) return true;
        const other = otherThan(server);
        // else a running failover would undo it
        if (await isMaster(other)) await command(server, 'REPLICAOF', '127.0.0.1', knownPort(other));
        return false;
      });
    },
    stop: closing(proxies, stop),
  };
}

/** Starts a proxy for each node of a Cluster, to which other nodes and clients are sent from now on. */
async function announceProxies(nodes: readonly Redis[]): Promise<readonly LossyProxy[]> {
  const proxies = await Promise.all(nodes.map(({ port }) => startLossyProxy(port)));
  for (const [at, node] of nodes.entries())
    await command(node, 'CONFIG', 'SET', 'cluster-announce-port', proxies[at]?.port ?? node.port);
  for (const node of nodes)
    await recovered('every node knows the proxies', async () => {
      const known = JSON.stringify(await ask(node, 'CLUSTER', 'SLOTS'));
      return proxies.every(({ port }) => known.includes(`,${port},`));
    });
  return proxies;
}

/** Waits until the condition holds; an error means that it does not hold yet. */
const recovered = (what: string, holds: () => Promise<boolean>): Promise<void> =>
  until(what, () => holds().catch(() => false), RECOVERY_LIMIT_MS);

const closing = (proxies: readonly LossyProxy[], stop: () => Promise<void>) => async (): Promise<void> => {
  await Promise.all(proxies.map((proxy) => proxy.close()));
  await stop();
};

async function flushEach(masters: () => Promise<readonly Redis[]>): Promise<void> {
  await Promise.all((await masters()).map((master) => command(master, 'FLUSHALL')));
}

/** Length of the accept queue: longer than any burst of connections, and short enough to be filled. */
const BACKLOG = 64;

async function startSingle(folder: string, program: string): Promise<ChaosStore> {
  const data = join(folder, 'redis');
  mkdirSync(data);
  const redis = await startRedis({ folder: data, program, args: ['--tcp-backlog', String(BACKLOG)] });
  const kept = ['appendonlydir', 'appendonly.aof']; // the second one before Redis 7
  const proxy = await startLossyProxy(redis.port);
  return {
    env: { REDIS_URL: redis.url },
    lossyEnv: { REDIS_URL: `127.0.0.1:${proxy.port}` },
    proxies: [proxy],
    masters: async () => [redis],
    flush: () => flushEach(async () => [redis]),
    forget: () => {
      for (const name of kept) rmSync(join(data, name), { recursive: true, force: true });
    },
    ...withoutReplicas,
    stop: closing([proxy], redis.stop),
  };
}

async function startOneMemcached(): Promise<ChaosStore> {
  const memcached = await startMemcached({ args: ['-b', String(BACKLOG)] });
  const proxy = await startLossyProxy(memcached.port);
  const memcachedEnv = (address: string) => ({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: address });
  return {
    env: memcachedEnv(memcached.address),
    lossyEnv: memcachedEnv(`127.0.0.1:${proxy.port}`),
    proxies: [proxy],
    masters: async () => [memcached],
    async flush() {
      const socket = connect(memcached.port, '127.0.0.1').end('flush_all\r\n');
      await once(socket.resume(), 'close');
    },
    forget: () => {}, // memcached persists nothing
    ...withoutReplicas,
    stop: closing([proxy], memcached.stop),
  };
}

const cannot = (what: string) => (): never => {
  throw new Error(`this topology cannot ${what}`);
};
const withoutReplicas = {
  whole: cannot('replace a master'),
  replaced: cannot('replace a master'),
  rejoined: cannot('replace a master'),
};
const withoutForgetting = { forget: cannot('start a server without its data') };

const isMaster = async (server: ChaosServer): Promise<boolean> =>
  String(await ask(server, 'ROLE')).startsWith('master');

const isReplica = async (server: ChaosServer): Promise<boolean> =>
  /^slave,.*,connected,/.test(String(await ask(server, 'ROLE')));

/** The servers for which the condition holds; those without an answer are left out. */
async function those<S extends ChaosServer>(
  servers: readonly S[],
  holds: (server: S) => Promise<boolean>,
): Promise<readonly S[]> {
  const held = await Promise.all(servers.map((server) => holds(server).catch(() => false)));
  return servers.filter((_, at) => held[at]);
}
