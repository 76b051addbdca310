import { setTimeout as sleep } from 'node:timers/promises';
import slotOf from 'cluster-key-slot';
import { type Redis, startRedis } from '../redis.ts';
import { startHaproxy } from '../redis-proxies.ts';
import { beginMove, clientOf, clusterInfo, startCluster, startWatched, type TestCluster } from '../redis-topologies.ts';
import { valkeyServer } from '../tools.ts';
import { eventually } from '../until.ts';
import type { Fault } from './fault.ts';
import { onSharedCounters } from './of-one-server.ts';

const masterKilled: Fault = {
  event: 'Sentinel: the master is killed',
  losses: 1,
  isFelt: true,
  async begin() {
    const watched = await startWatched();
    return {
      env: { REDIS_TYPE: 'SENTINEL', REDIS_URL: `${watched.name},127.0.0.1:${watched.sentinelPort}` },
      async strike() {
        const sentinel = clientOf({ port: watched.sentinelPort });
        await sentinel.call('SENTINEL', 'SET', watched.name, 'down-after-milliseconds', '500'); // only now: a busy one is not down
        sentinel.disconnect();
        await watched.master.kill();
        await untilMaster(watched.replica);
      },
      stop: () => watched.stop(),
    };
  },
};

const nodeKilled: Fault = {
  event: 'Cluster: a master is killed',
  losses: 1,
  isFelt: true,
  async begin() {
    const cluster = await startCluster({ withReplicas: true });
    const [first, replica] = [cluster.nodes[0], cluster.replicas[0]];
    if (!first || !replica) throw new Error('expected a Cluster of three masters, each with a replica');
    return {
      env: envOf(cluster),
      async strike() {
        await first.kill();
        await untilMaster(replica);
        for (const client of cluster.clients.slice(1))
          await eventually(async () => (await clusterInfo(client)).includes('cluster_state:ok'));
      },
      stop: () => cluster.stop(),
    };
  },
};

const resharded: Fault = {
  event: 'Cluster: all slots in use move to another master, key by key',
  losses: 0,
  isFelt: false,
  async begin() {
    const cluster = await startCluster();
    return { env: envOf(cluster), strike: () => reshard(cluster), stop: () => cluster.stop() };
  },
};

const handedOver: Fault = {
  event: 'HAProxy: `FAILOVER` to the replica',
  losses: 0,
  isFelt: true,
  async begin() {
    const master = await startRedis();
    const replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(master.port)] });
    const operator = clientOf(master);
    await eventually(async () => (await operator.info('replication')).includes('state=online'));
    const proxy = await startHaproxy(master, replica);
    return {
      env: { REDIS_URL: `127.0.0.1:${proxy.port}` },
      async strike() {
        await operator.call('FAILOVER', 'TO', '127.0.0.1', replica.port);
        await untilMaster(replica);
      },
      async stop() {
        operator.disconnect();
        await proxy.stop();
        await Promise.all([master.stop(), replica.stop()]);
      },
    };
  },
};

const reshardedAtOnce: Fault = {
  event: 'Cluster of Valkey 9: all slots in use move to another master (`CLUSTER MIGRATESLOTS`)',
  losses: 0,
  isFelt: false,
  async begin() {
    const cluster = await startCluster({ program: await valkeyServer() });
    return { env: envOf(cluster), strike: () => migrate(cluster), stop: () => cluster.stop() };
  },
};

const envOf = ({ nodes }: TestCluster) => ({
  REDIS_TYPE: 'CLUSTER',
  REDIS_URL: nodes.map(({ url }) => url).join(','),
});

async function untilMaster(server: Redis): Promise<void> {
  const client = clientOf(server);
  await eventually(async () => (await client.info('replication')).includes('role:master'));
  client.disconnect();
}

/** Moves slots as redis-cli does, but slowly, so that callers meet slots with half of their keys moved. */
async function reshard(cluster: TestCluster): Promise<void> {
  const inUse = await Promise.all(cluster.clients.map((client) => client.keys('*')));
  for (const [at, keys] of inUse.entries()) {
    for (const slot of new Set(keys.map((key) => slotOf(key)))) {
      const move = await beginMove(cluster, slot, at);
      for (const key of await move.keys()) {
        await move.take(key);
        await sleep(MOVE_MS);
      }
      await move.finish();
    }
  }
}
const MOVE_MS = 20;

/** Has Valkey move the slots in use, each with all its keys, to the next master. */
async function migrate({ clients }: TestCluster): Promise<void> {
  const inUse = await Promise.all(clients.map((client) => client.keys('*')));
  for (const [at, keys] of inUse.entries()) {
    const [from, to] = [clients[at], clients[(at + 1) % clients.length]];
    const target = String(await to?.call('CLUSTER', 'MYID'));
    for (const slot of new Set(keys.map((key) => slotOf(key)))) {
      await from?.call('CLUSTER', 'MIGRATESLOTS', 'SLOTSRANGE', slot, slot, 'NODE', target);
      await eventually(async () => String(await from?.call('CLUSTER', 'COUNTKEYSINSLOT', slot)) === '0');
    }
  }
}

/** Faults of a master and its sentinel, or of a Cluster. */
export const faultsOfSeveralServers: readonly Fault[] = [
  ...[masterKilled, handedOver, nodeKilled, resharded, reshardedAtOnce],
  onSharedCounters(resharded),
];
