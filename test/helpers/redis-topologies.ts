import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis as Client, type RedisOptions } from 'ioredis';
import { freePort, type Running, start } from './process.ts';
import { type Redis, startRedis } from './redis.ts';
import { redisServer } from './tools.ts';
import { eventually } from './until.ts';

const SLOTS = 16_384;

/** A Redis Cluster for a test; its masters share the slots evenly. */
export interface TestCluster {
  readonly nodes: readonly Redis[];
  /** A client for each node. */
  readonly clients: readonly Client[];
  /** One for each master, in the same order; none by default. */
  readonly replicas: readonly Redis[];
  stop(): Promise<void>;
}

export interface ClusterOptions {
  readonly masters?: number;
  /** A replica for each master. */
  readonly withReplicas?: boolean;
  /**
   * The time after which a silent node counts as failed; by default, where no replica could take over, longer than a
   * node waits for a busy processor.
   */
  readonly nodeTimeoutMs?: number;
  /** Directory with the data and identity of each node; absent: a restarted node is a new one. */
  readonly folder?: string;
  /** The program to start instead of redis-server. */
  readonly program?: string;
}

export async function startCluster({
  masters = 3,
  withReplicas = false,
  nodeTimeoutMs = withReplicas ? 2_000 : 60_000,
  ...servers
}: ClusterOptions = {}): Promise<TestCluster> {
  const started = await startNodes(withReplicas ? 2 * masters : masters, nodeTimeoutMs, servers);
  const [nodes, replicas] = [started.slice(0, masters), started.slice(masters)];
  const clients = nodes.map(({ redis }) => clientOf(redis));
  const meetFirst = (client: Client) =>
    client.call('CLUSTER', 'MEET', '127.0.0.1', nodes[0]?.redis.port ?? 0, nodes[0]?.busPort ?? 0);
  for (const [at, client] of clients.entries()) {
    const from = Math.ceil((SLOTS / masters) * at);
    const to = Math.ceil((SLOTS / masters) * (at + 1)) - 1;
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', at + 1); // otherwise nodes resolve epoch collisions later, and slots that move meanwhile jump back
    await client.call('CLUSTER', 'ADDSLOTSRANGE', from, to);
    await meetFirst(client);
  }
  for (const client of clients) await eventually(async () => (await clusterInfo(client)).includes('cluster_state:ok'));
  await Promise.all(replicas.map(({ redis }, at) => replicate(redis, clients[at], meetFirst)));
  for (const client of clients) // otherwise no node votes in a failover
    await eventually(async () => (await nodesKnownTo(client)).split(' slave ').length > replicas.length);
  return {
    nodes: nodes.map(({ redis }) => redis),
    clients,
    replicas: replicas.map(({ redis }) => redis),
    async stop() {
      for (const client of clients) client.disconnect();
      await Promise.all([...nodes, ...replicas].map(({ redis }) => redis.stop()));
    },
  };
}

/** Servers that can form a Cluster, each with a reserved bus port; the default one might be in use. */
function startNodes(count: number, nodeTimeoutMs: number, servers: Pick<ClusterOptions, 'folder' | 'program'>) {
  const { folder, ...common } = servers;
  const timeout = ['--cluster-node-timeout', String(nodeTimeoutMs)];
  const args = ['--cluster-enabled', 'yes', ...timeout, '--cluster-replica-validity-factor', '0'];
  const startNode = async (_: unknown, at: number) => {
    const busPort = await freePort();
    const own = folder === undefined ? {} : { folder: subfolder(folder, `node-${at}`) };
    return {
      redis: await startRedis({ args: [...args, '--cluster-port', String(busPort)], ...common, ...own }),
      busPort,
    };
  };
  return Promise.all(Array.from({ length: count }, startNode));
}

function subfolder(folder: string, name: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  return path;
}

/** A slot that is being moved from one master to the next. */
export interface Move {
  /** The keys of the slot that have not moved yet. */
  keys(): Promise<readonly string[]>;
  /** Moves one key. */
  take(key: string): Promise<void>;
  /** Moves the remaining keys, those of other tests included, and assigns the slot to its new master on both masters. */
  finish(): Promise<void>;
}

/** @param fromAt  the index of the node that has the slot */
export async function beginMove({ nodes, clients }: TestCluster, slot: number, fromAt: number): Promise<Move> {
  const toAt = (fromAt + 1) % nodes.length;
  const [from, to] = [clients[fromAt], clients[toAt]];
  if (!from || !to) throw new Error(`expected one of ${nodes.length} nodes, got ${fromAt}`);
  const [fromId, toId] = await Promise.all([from, to].map(async (node) => String(await node.call('CLUSTER', 'MYID'))));
  await to.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId ?? '');
  await from.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId ?? '');
  const keys = async () => {
    const found = await from.call('CLUSTER', 'GETKEYSINSLOT', slot, MAX_KEYS_OF_SLOT);
    return Array.isArray(found) ? found.map(String) : [];
  };
  const take = async (key: string) => {
    await from.call('MIGRATE', '127.0.0.1', nodes[toAt]?.port ?? 0, key, 0, MIGRATE_TIMEOUT_MS);
  };
  return {
    keys,
    take,
    async finish() {
      for (const key of await keys()) await take(key);
      for (const node of [to, from]) await node.call('CLUSTER', 'SETSLOT', slot, 'NODE', toId ?? '');
    },
  };
}
const MIGRATE_TIMEOUT_MS = 5_000;
const MAX_KEYS_OF_SLOT = 1_000;

/** Makes a standalone server a replica of a Cluster's master. */
async function replicate(replica: Redis, master: Client | undefined, meet: (client: Client) => Promise<unknown>) {
  const client = clientOf(replica);
  const masterId = String(await master?.call('CLUSTER', 'MYID'));
  await meet(client);
  await eventually(async () => (await nodesKnownTo(client)).includes(masterId));
  await client.call('CLUSTER', 'REPLICATE', masterId);
  await eventually(async () => (await client.info('replication')).includes('master_link_status:up'));
  client.disconnect();
}

const nodesKnownTo = async (client: Client): Promise<string> => String(await client.call('CLUSTER', 'NODES'));

/** An operator's client, which reconnects by itself. */
export function clientOf({ port }: Pick<Redis, 'port'>, password?: string, more: RedisOptions = {}): Client {
  const client = new Client(port, '127.0.0.1', { ...more, replyMapping: 'legacy', ...(password && { password }) });
  return client.on('error', () => {}); // while a server is down
}

export const clusterInfo = async (client: Client): Promise<string> => String(await client.call('CLUSTER', 'INFO'));

/** A master, its replica, and a sentinel that monitors them. */
export interface Watched {
  readonly name: string;
  readonly master: Redis;
  readonly replica: Redis;
  readonly sentinelPort: number;
  stop(): Promise<void>;
}

export interface SentinelOptions {
  /** The time after which a silent master counts as down; by default longer than it waits for a busy processor. */
  readonly downAfterMs?: number;
  /** How long a failover waits for the other replicas to follow. */
  readonly failoverMs?: number;
  /** The port at which the sentinel reaches the master, and names it to clients; by default the master's own. */
  readonly portOf?: (master: Redis) => Promise<number>;
}

/**
 * @param password  of the sentinel; empty: none
 * @param others    command-line arguments of each further replica
 */
export async function startWatched(
  password = '',
  others: readonly (readonly string[])[] = [],
  { downAfterMs = 3_000, failoverMs = 3_000, portOf = async ({ port }) => port }: SentinelOptions = {},
): Promise<Watched> {
  const name = 'mymaster';
  const master = await startRedis();
  const startReplica = (args: readonly string[]) =>
    startRedis({ args: ['--replicaof', '127.0.0.1', String(master.port), ...args] });
  const replica = await startReplica([]);
  const otherReplicas = await Promise.all(others.map(startReplica));
  const sentinelPort = await freePort();
  const masterPort = await portOf(master);
  const folder = mkdtempSync(join(tmpdir(), 'sentinel-'));
  const config = join(folder, 'sentinel.conf');
  const lines = [
    `port ${sentinelPort}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor ${name} 127.0.0.1 ${masterPort} 1`,
    `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
    `sentinel failover-timeout ${name} ${failoverMs}`,
    ...(password === '' ? [] : [`requirepass ${password}`]),
  ];
  writeFileSync(config, `${lines.join('\n')}\n`);
  const sentinel: Running = await start(await redisServer(), [config, '--sentinel'], { name: 'sentinel' });
  const client = clientOf({ port: sentinelPort }, password);
  await eventually(() => knowsReplicas(client, name, 1 + others.length));
  client.disconnect();
  return {
    name,
    master,
    replica,
    sentinelPort,
    async stop() {
      await Promise.all([sentinel, master, replica, ...otherReplicas].map((one) => one.stop()));
      rmSync(folder, { recursive: true });
    },
  };
}

/** Whether the sentinel knows the replicas; until then, a failover finds none. */
async function knowsReplicas(client: Client, name: string, count: number): Promise<boolean> {
  const replicas = (await client.call('SENTINEL', 'REPLICAS', name)) as readonly (readonly string[])[]; // by its documentation
  const isLinked = (fields: readonly string[]) => fields[fields.indexOf('master-link-status') + 1] === 'ok';
  return replicas.filter(isLinked).length === count;
}
