import '../../helpers/realm.ts';
import { channel } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import type { RedisAddress } from '../../../src/engine/open/options.ts';
import { MemcachedBackend } from '../../../src/parts/memcached/backend.ts';
import { openServers } from '../../../src/parts/memcached/servers.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { connect } from '../../../src/parts/redis/connect.ts';
import { type BlackHole, startBlackHole } from '../../helpers/black-hole.ts';
import { addressOf, ordinary } from '../../helpers/connection.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import { startMemcached } from '../../helpers/memcached.ts';
import { operationOf } from '../../helpers/operations.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startCluster } from '../../helpers/redis-topologies.ts';
import { eventually } from '../../helpers/until.ts';

const monotonicMs = () => performance.now();

/** A server that becomes unreachable, and a backend that uses it. */
interface Scene {
  readonly lost: Parameters<typeof startBlackHole>[0];
  readonly backend: Backend;
  stop(): Promise<void>;
}

async function onRedis(address: RedisAddress, lost: Redis, stop: () => Promise<void>): Promise<Scene> {
  const connection = connect({ ...ordinary, connectTimeoutMs: 60_000, address });
  connection.on('error', () => {});
  return { lost, backend: new RedisBackend(connection, Date.now, { monotonicMs }), stop };
}

const scenes = {
  async 'one Redis'() {
    const redis = await startRedis();
    return onRedis(addressOf(redis), redis, redis.stop);
  },
  async 'a node of a Redis Cluster'() {
    const { nodes, clients, stop } = await startCluster({ nodeTimeoutMs: 60_000 }); // so that the other nodes still redirect callers to it
    for (const client of clients) client.disconnect(); // they would contact the lost node, too
    const [lost] = nodes;
    if (!lost) throw new Error('a Cluster must have nodes');
    const address = { kind: 'cluster', nodes: nodes.map(({ port }) => ({ host: '127.0.0.1', port })) } as const;
    return onRedis(address, lost, stop);
  },
  async memcached() {
    const memcached = await startMemcached({ args: ['-b', '64'] });
    const { address, stop } = memcached;
    const servers = openServers({ servers: [address], tls: undefined, monotonicMs, onDown: () => {}, onUp: () => {} });
    return { lost: memcached, backend: new MemcachedBackend(servers, { clock: Date.now, monotonicMs }), stop };
  },
} satisfies { readonly [name: string]: () => Promise<Scene> };

/** Debits for keys on each node of a Cluster. */
const debits = Array.from({ length: 12 }, (_, at) =>
  operationOf({ key: `key-${at}` as CounterKey }, fixedWindowOf(1_000_000), 1, true),
);

/** The number of counters that answer. */
async function answers(backend: Backend): Promise<number> {
  const replies = await Promise.all(debits.map((debit) => backend.run([debit], { spend: 'each', timeoutMs: 300 })));
  return replies.flat().filter(({ code }) => code !== 'UNAVAILABLE').length;
}

/** Counts this process's connection attempts to a port of 127.0.0.1; other tests run in it, too. */
function countAttempts(ofPort: number) {
  let count = 0;
  const onSocket = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket }; // Node's message on that channel
    socket.on('connectionAttempt', (_, port) => {
      if (port === ofPort) count++;
    });
  };
  channel('net.client.socket').subscribe(onSocket);
  return { count: () => count, stop: () => channel('net.client.socket').unsubscribe(onSocket) };
}

/** Closed after all tests, which run at the same time, since they mostly wait. */
const closing: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of closing.reverse()) await close();
});

/**
 * Attempts within the time that `eventually` waits. Without a timeout, an attempt lasts a minute, and repeats its SYN
 * after 1, 3 and 7 s.
 */
const ATTEMPTS = 4;

test.concurrent.each(Object.keys(scenes) as (keyof typeof scenes)[])(
  '%s whose network loses every packet is retried, and answers by the second attempt after the network is back',
  async (name) => {
    const { lost, backend, stop } = await scenes[name]();
    closing.push(stop, () => backend.close());
    await eventually(async () => (await answers(backend)) === debits.length);
    const hole: BlackHole = await startBlackHole(lost);
    const attempts = countAttempts(lost.port);
    closing.push(attempts.stop);
    await eventually(async () => {
      expect(await answers(backend)).toBeLessThan(debits.length);
      return attempts.count() >= ATTEMPTS;
    });
    await hole.end();
    const before = attempts.count();
    await eventually(async () => (await answers(backend)) === debits.length);
    expect(attempts.count() - before).toBeLessThanOrEqual(name === 'a node of a Redis Cluster' ? 4 : 2); // for a Cluster, each attempt also queries its slots
  },
);
