import { mkdtempSync } from 'node:fs';
import { connect as connectTo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import slotOf from 'cluster-key-slot';
import type { Cluster } from 'ioredis';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Operation, RequestOperation } from '../../../src/engine/backends/backend.ts';
import { type CounterKey, createCounterKeys } from '../../../src/engine/backends/key.ts';
import type { RedisAddress } from '../../../src/engine/open/options.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { connect } from '../../../src/parts/redis/connect.ts';
import { backendConformance } from '../../engine/backends/conformance.ts';
import { addressOf, ordinary } from '../../helpers/connection.ts';
import { fixedWindowOf, slidingWindowCounterOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import { freePort } from '../../helpers/process.ts';
import fc from '../../helpers/property.ts';
import { startRedis } from '../../helpers/redis.ts';
import { beginMove, clientOf, startCluster, startWatched, type TestCluster } from '../../helpers/redis-topologies.ts';
import { redis6Server, redisServer } from '../../helpers/tools.ts';
import { eventually, until } from '../../helpers/until.ts';

import { apply, closing, FAILOVER_MS, hitOn, isNew, isReady, newKey, open } from './opened-store.ts';

test('a store counts over a unix socket', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redis-socket-'));
  const path = join(folder, 'redis.sock');
  const redis = await startRedis({ args: ['--unixsocket', path] });
  closing.push(() => redis.stop());
  const store = open({ kind: 'unix', path, database: 0 });
  await isReady(store);
  expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
});

test('a client without the password is told that Redis requires one', async () => {
  const redis = await startRedis({ args: ['--requirepass', 's3cret'] });
  closing.push(() => redis.stop());
  const stranger = open(addressOf(redis));
  await eventually(() => !isNew(stranger) || stranger.health().ready);
  expect(await apply(stranger, hitOn(newKey()))).toMatchObject([
    { code: 'UNAVAILABLE', reason: expect.stringContaining('NOAUTH') },
  ]);
});

describe('behind a sentinel', () => {
  test('counts on the master, and on the next one after a failover', async () => {
    const watched = await startWatched('s3cret');
    closing.push(() => watched.stop());
    const sentinels = [{ host: '127.0.0.1', port: watched.sentinelPort }];
    const store = open(
      { kind: 'sentinel', master: watched.name, sentinels },
      { sentinelCredentials: { password: 's3cret' } },
    );
    await isReady(store);
    const key = newKey();
    expect(await apply(store, hitOn(key, 5))).toMatchObject([{ code: 'OK', limitRemaining: 15 }]);
    await watched.master.stop();
    await eventually(() => !store.health().ready);
    expect(await apply(store, hitOn(key))).toMatchObject([{ code: 'UNAVAILABLE' }]);
    await until('the sentinel has promoted the replica', () => store.health().ready, FAILOVER_MS);
    expect(await apply(store, hitOn(key))).toMatchObject([{ code: 'OK', hitsBefore: 5 }]); // it had been replicated
  });

  test('recovers when a failover is announced while it queries the sentinel for the master', async () => {
    const watched = await startWatched();
    closing.push(() => watched.stop());
    const sentinels = [{ host: '127.0.0.1', port: watched.sentinelPort }];
    const connection = connect({ ...ordinary, address: { kind: 'sentinel', master: watched.name, sentinels } });
    const store = new RedisBackend(connection, Date.now);
    closing.push(() => store.close());
    await isReady(store);
    const { connector } = connection as unknown as { connector: { disconnect(): void } }; // an announcement disconnects it
    connection.on('error', () => {});
    const ended = new Promise((resolve) => connection.once('end', resolve));
    connection.once('connecting', () => connector.disconnect());
    connection.disconnect(true);
    await ended;
    await isReady(store);
    expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
  });
});

describe('a Cluster', () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterAll(() => cluster.stop());
  const address = (): RedisAddress => ({
    kind: 'cluster',
    nodes: cluster.nodes.slice(0, 1).map(({ port }) => ({ host: '127.0.0.1', port })),
  });

  backendConformance(
    'a Cluster',
    async (clock) => {
      const connection = connect({ ...ordinary, address: address() }) as Cluster; // an address of a Cluster opens a Cluster
      const store = new RedisBackend(connection, clock, { atomic: 'counter', replay: true, slowMs: 60_000 });
      await isReady(store);
      for (const { options } of connection.nodes()) Object.assign(options, { socketTimeout: undefined });
      return store;
    },
    { atomic: 'counter' },
  );

  test('counts the limits of a request in one step if their keys have the domain as hash tag', async () => {
    const store = open(address(), {}, { atomic: 'request' });
    await isReady(store);
    const keys = createCounterKeys('weir:', { hashTag: 'domain' });
    const hits = ['a', 'b', 'c', 'd'].map((value, at): RequestOperation => {
      const limit = fixedWindowOf(at === 3 ? 0 : 9, unitMs.DAY);
      return operationOf({ key: keys(limit, 'shop', [{ key: 'k', value }]) }, limit, 1, true);
    });
    const answers = await store.run(hits, { spend: 'all_or_nothing', timeoutMs: 5_000 });
    expect(answers).toMatchObject([...Array(3).fill({ code: 'OK', limitRemaining: 9 }), { code: 'OVER_LIMIT' }]);
  });

  test('counts each hit once while slots move from node to node', async () => {
    const store = open(address(), {}, { atomic: 'counter' });
    await isReady(store);
    const key = newKey('{moving}');
    const answers = [await apply(store, hitOn(key)), await apply(store, hitOn(key))];
    const move = await begin(key);
    answers.push(await apply(store, hitOn(key))); // the key has not moved
    await move.take(key);
    answers.push(await apply(store, hitOn(key))); // ASK
    await move.finish();
    answers.push(await apply(store, hitOn(key))); // MOVED
    const counted = answers.flat().map((answer) => ('reason' in answer ? answer.reason : answer.hitsBefore));
    expect(counted).toEqual([0, 1, 2, 3, 4]);
  });

  test('copies the counters of a slot while it moves, and right after', async () => {
    const store = open(address(), {}, { atomic: 'counter' });
    await isReady(store);
    const [gone, here] = ['gone', 'here'].map((name) => hitOn(newKey(`{copied}${name}`)));
    if (!gone || !here) throw new Error('expected two hits');
    await apply(store, gone, here);
    const countsInCopy = async () => {
      const fork = await store.fork([gone, here], 5_000);
      return [gone, here].map((hit) => fork.findFailure(hit.key) ?? fork.readState(hit)?.at(-1));
    };
    const move = await begin(gone.key);
    await move.take(gone.key);
    expect(await countsInCopy()).toEqual([1, 1]); // ASK
    await move.finish();
    expect(await countsInCopy()).toEqual([1, 1]); // MOVED
  });

  test('takes hits back whose counter is in a slot that moves, but not those from before a reset', async () => {
    const store = open(address(), {}, { atomic: 'counter' });
    await isReady(store);
    const how = { spend: 'each', timeoutMs: 5_000, receipts: true } as const;
    const taken = async (hit: RequestOperation): Promise<Operation> => {
      const [reply] = await store.run([hit], how);
      if (reply?.code !== 'OK') throw new Error('expected that the hit passes');
      return { ...hit, kind: 'refund', chargedAtMs: reply.chargedAtMs ?? 0 };
    };
    const limit = slidingWindowCounterOf(20, unitMs.DAY);
    const hits = ['gone', 'here', 'reset and gone', 'reset and here'].map((name) =>
      operationOf({ key: newKey(`{refunded}${name}`) }, limit, 3, true),
    );
    const refunds = await Promise.all(hits.map(taken));
    const [, , ...reset] = hits;
    for (const hit of reset) await store.run([{ ...hit, kind: 'forget' }, hit], how);
    const gone = hits.map(({ key }) => key).filter((key) => key.includes('gone'));
    const move = await begin(gone[0] as CounterKey);
    for (const key of gone) await move.take(key);
    for (const refund of refunds) expect(await store.run([refund], how)).toMatchObject([{ code: 'OK' }]);
    await move.finish();
    const left = await store.run(
      hits.map((hit) => ({ ...hit, kind: 'peek', hits: 0 })),
      how,
    );
    expect(left).toMatchObject([0, 0, 3, 3].map((hitsBefore) => ({ hitsBefore })));
  });

  test('counts each of several concurrent requests separately if some of their counters have moved', async () => {
    const store = open(address(), {}, { atomic: 'counter' });
    await isReady(store);
    const [gone, here, fresh] = ['gone', 'here', 'new'].map((name) => newKey(`{half-moved}${name}`));
    if (!gone || !here || !fresh) throw new Error('expected three keys');
    for (const key of [gone, here]) await apply(store, hitOn(key));
    const move = await begin(gone);
    await move.take(gone);
    const answers = await Promise.all([gone, here, fresh].map((key) => apply(store, hitOn(key))));
    expect(answers).toMatchObject([[{ hitsBefore: 1 }], [{ hitsBefore: 1 }], [{ hitsBefore: 0 }]]);
    expect(await apply(store, hitOn(gone), hitOn(here))).toMatchObject([{ hitsBefore: 2 }, { hitsBefore: 2 }]);
    const set = { spend: 'all_or_nothing', timeoutMs: 5_000 } as const;
    for (let times = 0; times < 3; times++) {
      const reason = 'redis: the slot is moving to another node';
      const replies = await store.run([hitOn(gone), hitOn(here)], set);
      expect(replies).toMatchObject([{ reason }, { reason }]); // no node has both
    }
    expect([...store.circuits().values()]).not.toContain('open');
    await move.take(here);
    await move.finish();
    expect(await apply(store, hitOn(gone), hitOn(here))).toMatchObject([{ hitsBefore: 3 }, { hitsBefore: 3 }]);
  });

  test.each([
    ['rates', slidingWindowCounterOf],
    ['fixed windows', fixedWindowOf],
  ])('answers a request with a moved and a new counter of %s in a moving slot', async (name, limitOf) => {
    const store = open(address(), {}, { atomic: 'counter' });
    await isReady(store);
    const limit = limitOf(20, unitMs.DAY);
    const hit = (key: string) => operationOf({ key: newKey(`{with new ${name}}${key}`) }, limit, 1, true);
    const [known, other] = [hit('known'), hit('other')];
    await apply(store, known, other);
    const move = await begin(known.key);
    await move.take(known.key);
    expect(await apply(store, known, hit('new'))).toMatchObject([{ hitsBefore: 1 }, { hitsBefore: 0 }]);
    expect(await apply(store, known, other, hit('newer'))).toMatchObject(
      [2, 1, 0].map((hitsBefore) => ({ hitsBefore })),
    );
    for (const key of await move.keys()) await move.take(key);
    await move.finish();
    expect(await apply(store, known, other)).toMatchObject([{ hitsBefore: 3 }, { hitsBefore: 2 }]);
  });

  test('gets the calls for all slots of a turn in one write per node, while one of the slots moves', async () => {
    const connection = connect({ ...ordinary, address: address() }) as Cluster; // an address of a Cluster opens a Cluster
    const store = new RedisBackend(connection, Date.now, { atomic: 'counter' });
    closing.push(() => store.close());
    await isReady(store);
    const [stays, moves] = [newKey('{stays-behind}'), newKey('{moves-on}')];
    const keys = [...Array.from({ length: 60 }, () => newKey()), stays, moves];
    const hitAll = async () => (await Promise.all(keys.map((key) => apply(store, hitOn(key))))).flat();
    expect(await hitAll()).toMatchObject(keys.map(() => ({ hitsBefore: 0 })));
    const move = await begin(moves);
    const streams = connection.nodes('master').flatMap(({ stream }) => stream as Socket);
    const writes = streams.map((stream) => (['_write', '_writev'] as const).map((how) => jest.spyOn(stream, how)));
    expect(await hitAll()).toMatchObject(keys.map(() => ({ hitsBefore: 1 })));
    expect(writes.map((ways) => ways.flatMap(({ mock }) => mock.calls).length)).toEqual([1, 1, 1]);
    for (const key of await move.keys()) await move.take(key); // other tests' keys may be in the slot, too
    expect(await hitAll()).toMatchObject(keys.map(() => ({ hitsBefore: 2 }))); // ASK
    await move.finish();
    expect(await hitAll()).toMatchObject(keys.map(() => ({ hitsBefore: 3 }))); // MOVED
  });

  /** Begins to move the slot of a key that no other test has moved. */
  const begin = (key: CounterKey) => {
    const slot = slotOf(key);
    return beginMove(cluster, slot, Math.floor((slot * cluster.nodes.length) / 16_384));
  };
});

test('a master of a Cluster that was replaced has no circuit any longer', async () => {
  const cluster = await startCluster({ withReplicas: true, nodeTimeoutMs: 60_000 });
  closing.push(() => cluster.stop());
  const [master, replica] = [cluster.nodes[0], cluster.replicas[0]];
  if (!master || !replica) throw new Error('expected a Cluster of three masters, each with a replica');
  const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
  const store = open({ kind: 'cluster', nodes }, {}, { atomic: 'counter' });
  await isReady(store);
  const hit = hitOn(newKey('{3}')); // slot 1584
  master.pause();
  await eventually(async () => {
    await store.run([hit], { spend: 'each', timeoutMs: 20 });
    return store.circuits().get(master.url) === 'open';
  });
  const operator = clientOf(replica);
  await operator.call('CLUSTER', 'FAILOVER', 'TAKEOVER');
  operator.disconnect();
  await eventually(async () => (await apply(store, hit))[0]?.code === 'OK');
  await eventually(() => !store.circuits().has(master.url)); // a redirected call precedes the list of the new masters
});

test.each([
  ['Redis 6.2', redis6Server],
  ['Redis 7', redisServer],
])('%s: the store leaves a master that becomes a replica of its successor', async (_, program) => {
  const [first, second] = await Promise.all([1, 2].map(async () => startRedis({ program: await program() })));
  if (!first || !second) throw new Error('expected two servers');
  closing.push(
    () => first.stop(),
    () => second.stop(),
  );
  let target = first.port;
  const address = createServer((socket) => {
    const onward = connectTo(target, '127.0.0.1').on('error', () => socket.destroy());
    socket.on('error', () => {}).on('close', () => onward.destroy());
    socket.pipe(onward).pipe(socket);
  });
  const port = await freePort();
  address.listen(port, '127.0.0.1');
  closing.push(() => address.close());
  const store = open(addressOf({ port }));
  await isReady(store);
  expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
  target = second.port;
  const operator = clientOf(first);
  await operator.replicaof('127.0.0.1', second.port);
  operator.disconnect();
  expect(await apply(store, hitOn(newKey()))).toMatchObject([
    {
      code: 'UNAVAILABLE',
      reason: expect.stringMatching(/^redis: READONLY You can't write against a read only replica\.?$/),
    },
  ]);
  await eventually(async () => (await apply(store, hitOn(newKey())))[0]?.code === 'OK');
});

describe('the hash tag of a domain', () => {
  const limit = fixedWindowOf(1);
  test('puts all its keys into one slot, and keeps them apart', () => {
    const texts = fc.string({ unit: fc.constantFrom('a', '{', '}', '|', ':', 'é', '') });
    fc.assert(
      fc.property(
        fc.oneof(texts, fc.string({ minLength: 120, maxLength: 140 })),
        texts,
        texts,
        (domain, one, other) => {
          const keys = createCounterKeys('', { hashTag: 'domain' });
          const [first, second] = [one, other].map((value) => keys(limit, domain, [{ key: 'k', value }]));
          expect(slotOf(first ?? '')).toBe(slotOf(second ?? ''));
          expect(first === second).toBe(one === other);
        },
      ),
    );
  });
});
