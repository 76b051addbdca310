import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import slotOf from 'cluster-key-slot';
import fc from 'fast-check';
import { unitMs } from '../../../src/algorithms/limit.ts';
import { Breakers } from '../../../src/stores/breaker.ts';
import { type CounterKey, createCounterKeys } from '../../../src/stores/key.ts';
import type { RedisAddress } from '../../../src/stores/redis/address.ts';
import { connect, type RedisConnectOptions } from '../../../src/stores/redis/connect.ts';
import { createRedisStore } from '../../../src/stores/redis/store.ts';
import type { Hit, Store } from '../../../src/stores/store.ts';
import type { ClientTls } from '../../../src/stores/tls.ts';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { addressOf, ordinary } from '../../helpers/connection.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import { freePort } from '../../helpers/process.ts';
import { startRedis } from '../../helpers/redis.ts';
import { beginMove, startCluster, startWatched, type TestCluster } from '../../helpers/redis-topologies.ts';
import { eventually } from '../../helpers/statsd.ts';
import { valkeyServer } from '../../helpers/tools.ts';
import { storeConformance } from '../conformance.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Opens a store as the service does, ready or not. */
function open(
  address: RedisAddress,
  options: Partial<RedisConnectOptions> = {},
  how: Parameters<typeof createRedisStore>[2] = {},
): Store {
  const connection = connect({ ...ordinary, ...options, address });
  connection.on('error', () => {});
  const store = createRedisStore(connection, Date.now, how);
  closing.push(() => store.close());
  return store;
}

let counters = 0;
const newKey = (text = ''): CounterKey => `${text}counter-${counters++}` as CounterKey; // as good as any
const hitOn = (key: CounterKey, hits = 1): Hit => {
  return { key, limit: fixedWindowOf(20, unitMs.DAY), hits, blocks: true };
};
const apply = (store: Store, ...hits: Hit[]) => store.apply(hits, { spend: 'each', timeoutMs: 5_000 });
const isReady = (store: Store) => eventually(() => store.state().ready);

describe('over TLS', () => {
  const folder = mkdtempSync(join(tmpdir(), 'redis-tls-'));
  const authority = createAuthority();
  const ca = writeCertificate(folder, 'ca', authority).cert;
  const otherCa = writeCertificate(folder, 'other', createAuthority()).cert;
  const server = writeCertificate(folder, 'server', authority.issue('localhost', '127.0.0.1'));
  const named = writeCertificate(folder, 'named', authority.issue('redis.example.com'));
  const client = writeCertificate(folder, 'client', authority.issue('weir'));
  afterAll(() => rmSync(folder, { recursive: true }));

  async function startTls({ cert, key }: { readonly cert: string; readonly key: string }, clients: 'yes' | 'no') {
    const port = await freePort();
    const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', ca];
    const redis = await startRedis({ args: ['--tls-port', String(port), ...files, '--tls-auth-clients', clients] });
    closing.push(() => redis.stop());
    return addressOf({ port });
  }
  const tls = (changes: Partial<ClientTls> = {}): Partial<RedisConnectOptions> => ({
    tls: { caFile: ca, certFile: '', keyFile: '', skipHostnameVerification: false, ...changes },
  });

  test('counts, where the server is of the authority', async () => {
    const store = open(await startTls(server, 'no'), tls());
    await isReady(store);
    expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
  });

  test('shows its own certificate where one is wanted', async () => {
    const address = await startTls(server, 'yes');
    const store = open(address, tls({ certFile: client.cert, keyFile: client.key }));
    await isReady(store);
    expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
    const without = open(address, tls());
    await eventually(() => !isNew(without));
    expect(await apply(without, hitOn(newKey()))).toMatchObject([{ code: 'UNAVAILABLE' }]);
  });

  test('does not count where the server is of another authority, or has another name', async () => {
    const [right, wrong] = await Promise.all([startTls(server, 'no'), startTls(named, 'no')]);
    const strangers = [open(right, tls({ caFile: otherCa })), open(wrong, tls())];
    for (const store of strangers) {
      await eventually(() => !isNew(store));
      expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'UNAVAILABLE' }]);
    }
    const lenient = open(wrong, tls({ skipHostnameVerification: true }));
    await isReady(lenient);
    expect(await apply(lenient, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
  });
});

/** Nothing has come of its first connection yet. */
function isNew(store: Store): boolean {
  const state = store.state();
  return !state.ready && state.reason === 'not connected yet';
}

test('over a unix socket', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redis-socket-'));
  closing.push(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'redis.sock');
  const redis = await startRedis({ args: ['--unixsocket', path] });
  closing.push(() => redis.stop());
  const store = open({ kind: 'unix', path, database: 0 });
  await isReady(store);
  expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
});

describe('with a password', () => {
  test('counts for who knows it, and says what is wrong to who does not', async () => {
    const redis = await startRedis({ args: ['--requirepass', 's3cret'] });
    closing.push(() => redis.stop());
    const store = open({ ...addressOf(redis), password: 's3cret' });
    await isReady(store);
    expect(await apply(store, hitOn(newKey()))).toMatchObject([{ code: 'OK' }]);
    const stranger = open(addressOf(redis));
    await eventually(() => !isNew(stranger) || stranger.state().ready);
    expect(await apply(stranger, hitOn(newKey()))).toMatchObject([
      { code: 'UNAVAILABLE', reason: expect.stringContaining('NOAUTH') },
    ]);
  });
});

describe('behind a sentinel', () => {
  test('counts on the master, and on the next one when it has gone', async () => {
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
    await eventually(() => !store.state().ready);
    expect(await apply(store, hitOn(key))).toMatchObject([{ code: 'UNAVAILABLE' }]);
    await isReady(store);
    expect(await apply(store, hitOn(key))).toMatchObject([{ code: 'OK', hitsBefore: 5 }]); // it had been replicated
  }, 60_000);
});

describe('a Cluster', () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startCluster();
  }, 60_000);
  afterAll(() => cluster.stop());
  const address = (): RedisAddress => ({
    kind: 'cluster',
    nodes: cluster.nodes.slice(0, 1).map(({ port }) => ({ host: '127.0.0.1', port })),
  });

  storeConformance(
    'a Cluster',
    async (clock) => {
      const store = createRedisStore(connect({ ...ordinary, address: address() }), clock, {
        atomic: 'counter',
        replay: true,
      });
      await isReady(store);
      return store;
    },
    { atomic: 'counter' },
  );

  test('takes the limits of a request in one step where their keys have the domain as hash tag', async () => {
    const store = open(address(), {}, { atomic: 'request' });
    await isReady(store);
    const keys = createCounterKeys('weir:', { hashTag: 'domain' });
    const hits = ['a', 'b', 'c', 'd'].map((value, at): Hit => {
      const limit = fixedWindowOf(at === 3 ? 0 : 9, unitMs.DAY);
      return { key: keys(limit, 'shop', [{ key: 'k', value }]), limit, hits: 1, blocks: true };
    });
    const answers = await store.apply(hits, { spend: 'all_or_nothing', timeoutMs: 5_000 });
    expect(answers).toMatchObject([...Array(3).fill({ code: 'OK', limitRemaining: 9 }), { code: 'OVER_LIMIT' }]);
  });

  test('counts each hit once while slots move from node to node', async () => {
    const store = open(address(), {}, { atomic: 'counter' });
    await isReady(store);
    const key = newKey('{moving}');
    const answers = [await apply(store, hitOn(key)), await apply(store, hitOn(key))];
    const move = await begin(key);
    answers.push(await apply(store, hitOn(key))); // it is where it was
    await move.take(key);
    answers.push(await apply(store, hitOn(key))); // ASK
    await move.finish();
    answers.push(await apply(store, hitOn(key))); // MOVED
    const counted = answers.flat().map((answer) => ('reason' in answer ? answer.reason : answer.hitsBefore));
    expect(counted).toEqual([0, 1, 2, 3, 4]);
  });

  test('counts each request by itself where they come together, and some of their counters have moved', async () => {
    const breakers = new Breakers();
    const store = open(address(), {}, { atomic: 'counter', breakers });
    await isReady(store);
    const [gone, here, fresh] = ['gone', 'here', 'new'].map((name) => newKey(`{half-moved}${name}`));
    if (!gone || !here || !fresh) throw new Error('expected three keys');
    for (const key of [gone, here]) await apply(store, hitOn(key));
    const move = await begin(gone);
    await move.take(gone);
    const answers = await Promise.all([gone, here, fresh].map((key) => apply(store, hitOn(key))));
    expect(answers).toMatchObject([[{ hitsBefore: 1 }], [{ hitsBefore: 1 }], [{ hitsBefore: 0 }]]);
    for (let times = 0; times < 3; times++) {
      const reason = 'redis: the slot is moving to another node';
      expect(await apply(store, hitOn(gone), hitOn(here))).toMatchObject([{ reason }, { reason }]); // nobody has both
    }
    expect([...breakers.states().values()]).not.toContain('open');
    await move.take(here);
    await move.finish();
    expect(await apply(store, hitOn(gone), hitOn(here))).toMatchObject([{ hitsBefore: 2 }, { hitsBefore: 2 }]);
  });

  /** Begins to move the slot of a key that nothing else has moved yet. */
  const begin = (key: CounterKey) => {
    const slot = slotOf(key);
    return beginMove(cluster, slot, Math.floor((slot * cluster.nodes.length) / 16_384));
  };
});

describe('Valkey', () => {
  storeConformance('Valkey', async (clock) => {
    const server = await startRedis({ program: await valkeyServer() });
    closing.push(() => server.stop());
    const connection = connect({ ...ordinary, address: addressOf(server) });
    await once(connection, 'ready');
    return createRedisStore(connection, clock, { replay: true });
  });
});

describe('the hash tag of a domain', () => {
  const limit = fixedWindowOf(1);
  test('puts all its keys into one slot, and tells them apart', () => {
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
