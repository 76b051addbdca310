import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis as Client } from 'ioredis';
import { freePort, type Running, start } from './process.ts';
import { type Redis, startRedis } from './redis.ts';
import { redisServer } from './tools.ts';

const SLOTS = 16_384;
const POLL_MS = 25;

/** A Redis Cluster of a test's own: masters, each with a third of the slots or so, then as many replicas where there are some. */
export interface TestCluster {
  readonly nodes: readonly Redis[];
  /** Commands to one node. */
  readonly clients: readonly Client[];
  stop(): Promise<void>;
}

export interface ClusterOptions {
  readonly masters?: number;
  /** A replica for each master. */
  readonly withReplicas?: boolean;
  /** Directory in which each node keeps what it has, and who it is; absent: a node that is started again is another one. */
  readonly folder?: string;
}

export async function startCluster({
  masters = 3,
  withReplicas = false,
  folder,
}: ClusterOptions = {}): Promise<TestCluster> {
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000', '--cluster-replica-validity-factor', '0'];
  const busPorts = await Promise.all(Array.from({ length: withReplicas ? 2 * masters : masters }, freePort));
  const startNode = (busPort: number, at: number): Promise<Redis> =>
    startRedis({
      args: [...args, '--cluster-port', String(busPort)],
      ...(folder !== undefined && { folder: subfolder(folder, `node-${at}`) }),
    });
  const nodes = await Promise.all(busPorts.map(startNode));
  const clients = nodes.map(({ port }) => new Client(port, '127.0.0.1', { replyMapping: 'legacy' }));
  for (const [at, client] of clients.entries()) {
    const from = Math.ceil((SLOTS / masters) * at);
    const to = Math.ceil((SLOTS / masters) * (at + 1)) - 1;
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', at + 1); // else they sort it out later, and slots that move meanwhile jump back
    if (at < masters) await client.call('CLUSTER', 'ADDSLOTSRANGE', from, to);
    await client.call('CLUSTER', 'MEET', '127.0.0.1', nodes[0]?.port ?? 0, busPorts[0] ?? 0);
  }
  for (const client of clients) {
    while (!String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok')) await sleep(POLL_MS);
  }
  for (const [at, client] of clients.slice(masters).entries()) {
    const id = String(await clients[at]?.call('CLUSTER', 'MYID'));
    while (!String(await client.call('CLUSTER', 'NODES')).includes(id)) await sleep(POLL_MS);
    await client.call('CLUSTER', 'REPLICATE', id);
    while (!String(await client.call('ROLE')).includes('connected')) await sleep(POLL_MS);
  }
  return {
    nodes,
    clients,
    async stop() {
      for (const client of clients) client.disconnect();
      await Promise.all(nodes.map((node) => node.stop()));
    },
  };
}

function subfolder(folder: string, name: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  return path;
}

/** A master, a replica of it, and a sentinel that watches them. */
export interface Watched {
  readonly name: string;
  readonly master: Redis;
  readonly replica: Redis;
  readonly sentinelPort: number;
  stop(): Promise<void>;
}

/** @param password  of the sentinel; empty: none */
export async function startWatched(password = ''): Promise<Watched> {
  const name = 'mymaster';
  const master = await startRedis();
  const replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(master.port)] });
  const sentinelPort = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'sentinel-'));
  const config = join(folder, 'sentinel.conf');
  const lines = [
    `port ${sentinelPort}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor ${name} 127.0.0.1 ${master.port} 1`,
    `sentinel down-after-milliseconds ${name} 500`,
    `sentinel failover-timeout ${name} 3000`,
    ...(password === '' ? [] : [`requirepass ${password}`]),
  ];
  writeFileSync(config, `${lines.join('\n')}\n`);
  const sentinel: Running = await start(await redisServer(), [config, '--sentinel'], { name: 'sentinel' });
  const client = new Client(sentinelPort, '127.0.0.1', {
    replyMapping: 'legacy',
    ...(password !== '' && { password }),
  });
  client.on('error', () => {}); // it is not listening yet
  while (!(await knowsReplica(client, name))) await sleep(POLL_MS);
  client.disconnect();
  return {
    name,
    master,
    replica,
    sentinelPort,
    async stop() {
      await Promise.all([sentinel.stop(), master.stop(), replica.stop()]);
      rmSync(folder, { recursive: true });
    },
  };
}

/** Before, a failover would find nobody. */
async function knowsReplica(client: Client, name: string): Promise<boolean> {
  const replicas = (await client.call('SENTINEL', 'REPLICAS', name)) as readonly (readonly string[])[]; // by its documentation
  return replicas.some((fields) => fields[fields.indexOf('master-link-status') + 1] === 'ok');
}
