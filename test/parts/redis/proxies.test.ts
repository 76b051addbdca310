import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Operation, Replies } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { connect } from '../../../src/parts/redis/connect.ts';
import { addressOf, ordinary } from '../../helpers/connection.ts';
import { calendarWindowOf, fixedWindowOf, inFlightOf, tokenBucketOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startEnvoyRedisProxy, startHaproxy, startTwemproxy } from '../../helpers/redis-proxies.ts';
import { clientOf } from '../../helpers/redis-topologies.ts';
import { eventually } from '../../helpers/until.ts';

/** Fixed windows where keys are divided among servers, or no script may run. */

const NO_EXPIRY = -1;
const keys = createCounterKeys('');
const spend = (limit: Limit, name: string, hits = 1): Operation =>
  operationOf({ key: keys(limit, name, []) }, limit, hits, true);

let servers: readonly Redis[];
const closing: (() => unknown)[] = [];
beforeAll(async () => {
  servers = await Promise.all([startRedis(), startRedis()]);
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  for (const server of servers) {
    const operator = clientOf(server);
    await operator.flushall();
    operator.disconnect();
  }
});
afterAll(() => Promise.all(servers.map((server) => server.stop())));

/** Opens a store as the service does, once it is ready. */
async function open(port: number, credentials: { username?: string; password?: string } = {}) {
  const address = { ...addressOf({ port }), ...credentials };
  const redis = connect({ ...ordinary, address });
  redis.on('error', () => {});
  const limited: string[] = [];
  const refused: string[] = [];
  const store = new RedisBackend(redis, Date.now, {
    slowMs: 60_000,
    onUnavailable: (reason) => refused.push(reason),
    probe: { keys, onProblem: () => {}, onUsable: () => {}, onLimited: (reason) => limited.push(reason) },
  });
  closing.push(() => store.close());
  await eventually(() => store.health().ready);
  return { store, limited, refused };
}

const run = async (store: RedisBackend, ...operations: readonly Operation[]): Promise<Replies> =>
  store.run(operations, { spend: 'each', timeoutMs: 10_000 });

async function behind(proxy: { readonly port: number; stop(): Promise<unknown> }): Promise<number> {
  closing.push(() => proxy.stop());
  return proxy.port;
}

/** A user who may only do this, as in docs/counters.md. */
async function minimalUser(): Promise<{ port: number; username: string; password: string }> {
  const [server] = servers as [Redis];
  const operator = clientOf(server);
  const commands = ['get', 'incrby', 'set', 'pexpireat', 'pttl', 'del'].map((name) => `+${name}`);
  await operator.acl('SETUSER', 'minimal', 'on', '>s3cret', '-@all', '~*', ...commands);
  operator.disconnect();
  return { port: server.port, username: 'minimal', password: 's3cret' };
}

const places = [
  ['Envoy’s redis_proxy with two servers', async () => ({ port: await behind(await startEnvoyRedisProxy(servers)) })],
  ['twemproxy with two servers', async () => ({ port: await behind(await startTwemproxy(servers)) })],
  ['HAProxy', async () => ({ port: await behind(await startHaproxy(servers[0] as Redis)) })],
  ['a user who may only count', minimalUser],
] as const;

describe.each(places)('behind %s', (name, start) => {
  test('200 of 400 concurrent hits on 40 counters pass a limit of 5, in each of three runs, from two instances', async () => {
    const { port, ...credentials } = await start();
    const stores = [await open(port, credentials), await open(port, credentials)];
    const limit = fixedWindowOf(5, unitMs.DAY);
    for (let round = 0; round < 3; round++) {
      const hits = Array.from({ length: 400 }, (_, at) => spend(limit, `${round}-${at % 40}`));
      const asked = Array.from({ length: 100 }, (_, at) => {
        const { store } = stores[at % 2] as { readonly store: RedisBackend };
        return run(store, ...hits.slice(4 * at, 4 * at + 4));
      });
      const codes = (await Promise.all(asked)).flat().map(({ code }) => code);
      expect([codes.filter((code) => code === 'OK').length, codes.length]).toEqual([200, 400]);
    }
    for (const server of servers) {
      const operator = clientOf(server);
      const left = await Promise.all((await operator.keys('fixed*')).map((key) => operator.pttl(key)));
      operator.disconnect();
      expect(left.filter((ms) => ms === NO_EXPIRY)).toEqual([]);
    }
  });

  test('windows of all alignments are read, reset, charged and given back', async () => {
    const { port, ...credentials } = await start();
    const { store } = await open(port, credentials);
    const limits = [
      fixedWindowOf(5, unitMs.HOUR),
      fixedWindowOf(5, unitMs.DAY, { alignment: 'first_hit' }),
      { ...fixedWindowOf(5, unitMs.DAY, { phaseMs: 333 }), counter: 'phase' },
      calendarWindowOf(5, 'MONTH', 'Europe/Berlin'),
    ];
    for (const limit of limits) {
      const hit = spend(limit, 'all', 2);
      const done = [
        ...(await run(store, hit, { ...hit, kind: 'peek' }, { ...hit, kind: 'peek', hits: 0 })),
        ...(await run(store, { ...hit, kind: 'charge', hits: 4 }, hit)),
        ...(await run(store, { ...hit, kind: 'give_back', hits: 7 }, { ...hit, kind: 'give_back', hits: 9 })),
        ...(await run(store, hit, { ...hit, kind: 'forget' }, hit)),
      ];
      expect(done).toMatchObject([
        { code: 'OK', hitsBefore: 0, limitRemaining: 3 },
        { code: 'OK', hitsBefore: 2 },
        { code: 'OK', hitsBefore: 2, limitRemaining: 3 },
        { code: 'OVER_LIMIT', hitsBefore: 2, limitRemaining: 0 },
        { code: 'OVER_LIMIT', hitsBefore: 6 },
        { code: 'OK', limitRemaining: 4 },
        { code: 'OK', limitRemaining: 5 },
        { code: 'OK', hitsBefore: 0, limitRemaining: 3 },
        { code: 'OK', limitRemaining: 5 },
        { code: 'OK', hitsBefore: 0, limitRemaining: 3 },
      ]);
      const fork = await store.fork([hit], 10_000);
      expect(fork.readState(hit)?.[1]).toBe(2);
    }
  });

  test('what needs a script is refused by name, and makes the store unready', async () => {
    const { port, ...credentials } = await start();
    const { store, limited } = await open(port, credentials);
    const bucket = spend(tokenBucketOf(5, unitMs.DAY), 'bucket');
    const replies = await run(store, bucket, spend(fixedWindowOf(5, unitMs.DAY), 'window'));
    if (name === 'HAProxy') {
      expect([replies, store.limitation(), limited]).toMatchObject([[{ code: 'OK' }, { code: 'OK' }], undefined, []]);
      return;
    }
    const reason = `token_bucket needs a script: ${store.limitation()}`;
    expect(replies).toMatchObject([{ code: 'UNAVAILABLE', reason: `redis: ${reason}` }, { code: 'OK' }]);
    const window = spend(fixedWindowOf(5, unitMs.DAY), 'window');
    const asked = [run(store, bucket), run(store, window), run(store, bucket), run(store, window)];
    const codes = (await Promise.all(asked)).map(([reply]) => reply);
    expect(codes).toMatchObject([{ code: 'UNAVAILABLE' }, { hitsBefore: 1 }, {}, { hitsBefore: 2 }]);
    await run(store, bucket); // alone
    expect(await run(store, window)).toMatchObject([{ hitsBefore: 3 }]);
    expect(limited).toEqual([store.limitation()]);
    expect(store.health()).toEqual({ ready: false, reason });
  });
});

test('a counter that Redis refuses is reported while scripts may not run', async () => {
  const { port, ...credentials } = await minimalUser();
  const { store, refused } = await open(port, credentials);
  const hit = spend(fixedWindowOf(5, unitMs.DAY), 'text');
  const operator = clientOf(servers[0] as Redis);
  closing.push(() => operator.disconnect());
  await operator.set(hit.key, 'text');
  const reason = 'ERR value is not an integer or out of range';
  expect(await run(store, hit)).toMatchObject([{ code: 'UNAVAILABLE', reason: `redis: ${reason}` }]);
  expect(refused).toEqual([reason]);
});

test('scripts are used again once the user may run them', async () => {
  const { port, ...credentials } = await minimalUser();
  const { store } = await open(port, credentials);
  const slot = spend(inFlightOf(5), 'slot');
  expect(await run(store, slot)).toMatchObject([{ code: 'UNAVAILABLE' }]);
  const operator = clientOf(servers[0] as Redis);
  closing.push(() => operator.disconnect());
  await operator.acl('SETUSER', 'minimal', '+@all');
  await eventually(async () => (await run(store, slot))[0]?.code === 'OK');
  expect([store.health(), store.limitation()]).toEqual([{ ready: true }, undefined]);
});

test('a server behind HAProxy that was down at first is sent scripts', async () => {
  const server = await startRedis();
  closing.push(() => server.stop());
  const port = await behind(await startHaproxy(server));
  await server.stop();
  const redis = connect({ ...ordinary, address: addressOf({ port }) });
  redis.on('error', () => {});
  const store = new RedisBackend(redis, Date.now, {
    probe: { keys, onProblem: () => {}, onUsable: () => {}, onLimited: () => {} },
  });
  closing.push(() => store.close());
  let attempts = 0;
  redis.on('close', () => attempts++);
  await eventually(() => attempts > 3);
  await server.restart();
  await eventually(async () => (await run(store, spend(tokenBucketOf(5, unitMs.DAY), 'late')))[0]?.code === 'OK');
});
