import type { Redis as Connection } from 'ioredis';
import { type Spend, unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Backend, Operation, RequestOperation } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { openReady } from '../../helpers/connection.ts';
import { fixedWindowOf, slidingWindowLogOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

let redis: Redis;
let operator: Connection;
let store: Backend;
beforeAll(async () => {
  redis = await startRedis();
  operator = await openReady(redis);
  store = new RedisBackend(await openReady(redis), Date.now);
});
afterAll(async () => {
  await store.close();
  operator.disconnect();
  await redis.stop();
});
beforeEach(async () => {
  await operator.flushall();
  startedMs = await serverTimeMs();
});

/** The start of the test on Redis' clock. */
let startedMs: number;
async function serverTimeMs(): Promise<number> {
  const [seconds, micros] = await operator.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

const windowStartMs = Date.now() - (Date.now() % unitMs.DAY);
const shared = (key: string, hits: number, limit = 20, blocks = true): RequestOperation => {
  const counter = { key: key as CounterKey, shared: { windowStartMs, ttlMs: unitMs.DAY + 7_000 } }; // any values will do
  return operationOf(counter, fixedWindowOf(limit, unitMs.DAY), hits, blocks);
};
const applyAs = (spend: Spend, ...hits: readonly Operation[]) => store.run(hits, { spend, timeoutMs: 5_000 });
const apply = (...hits: readonly Operation[]) => applyAs('each', ...hits);
const TTL_S = unitMs.DAY / 1000 + 7;

/** The text of a counter, and the seconds to live that it was given in this test; undefined: no such time as all have. */
async function kept(key: string) {
  const text = await operator.get(key);
  const givenAtMs = (await operator.pexpiretime(key)) - TTL_S * 1_000;
  return [text, givenAtMs >= startedMs && givenAtMs <= (await serverTimeMs()) ? TTL_S : undefined];
}

test('a shared counter is a decimal count whose time to live restarts with each hit', async () => {
  expect(await apply(shared('a', 3))).toMatchObject([{ code: 'OK', hitsBefore: 0, limitRemaining: 17 }]);
  expect(await kept('a')).toEqual(['3', TTL_S]);
  await operator.expire('a', 10);
  expect(await apply(shared('a', 0))).toMatchObject([{ code: 'OK', limitRemaining: 17 }]);
  expect(await kept('a')).toEqual(['3', TTL_S]);
});

test('a peek also creates a shared counter', async () => {
  await apply(shared('a', 0));
  expect(await kept('a')).toEqual(['0', TTL_S]);
});

test('a shared counter continues from the count of others, and they from its count', async () => {
  await operator.incrby('a', 18);
  expect(await apply(shared('a', 1), shared('a', 1), shared('a', 1))).toMatchObject([
    { code: 'OK', hitsBefore: 18 },
    { code: 'OK', hitsBefore: 19, limitRemaining: 0 },
    { code: 'OVER_LIMIT', hitsBefore: 20 },
  ]);
  expect(await operator.incrby('a', 1)).toBe(22);
});

test('a shared counter is exact with concurrent writers', async () => {
  const theirs = await openReady(redis);
  const counts = await Promise.all(
    Array.from({ length: 200 }, async (_, at) => {
      if (at % 2) return (await theirs.incrby('a', 1)) <= 100;
      const [decision] = await apply(shared('a', 1, 100));
      return decision?.code === 'OK';
    }),
  );
  theirs.disconnect();
  expect(counts.filter(Boolean)).toHaveLength(100);
  expect(await operator.get('a')).toBe('200');
});

test('a shared counter refunds hits, never below 0', async () => {
  await apply(shared('a', 5));
  expect(await apply(shared('a', -2))).toMatchObject([{ code: 'OK', limitRemaining: 17 }]);
  expect(await apply(shared('a', -9))).toMatchObject([{ code: 'OK', limitRemaining: 20 }]);
  expect(await operator.get('a')).toBe('0');
});

test.each([
  ['9223372036854775807', 'OVER_LIMIT', '9223372036854775807'],
  ['-5', 'OK', '1'],
])('a shared counter with %s decides, and continues from at least 0', async (written, code, left) => {
  await operator.set('a', written);
  expect(await apply(shared('a', 1))).toMatchObject([{ code }]);
  expect(await operator.get('a')).toBe(left);
});

describe('a shared key that holds no count', () => {
  beforeEach(async () => {
    await operator.set('text', 'abc');
    await operator.lpush('list', 'z');
  });

  test('makes only its own hits unavailable, and stays unchanged', async () => {
    expect(await apply(shared('b', 1), shared('text', 1), shared('list', 1), shared('c', 1))).toEqual([
      expect.objectContaining({ code: 'OK' }),
      { code: 'UNAVAILABLE', reason: 'redis: ERR value is not an integer or out of range' },
      { code: 'UNAVAILABLE', reason: 'redis: WRONGTYPE Operation against a key holding the wrong kind of value' },
      expect.objectContaining({ code: 'OK' }),
    ]);
    expect([await operator.get('b'), await operator.get('text'), await operator.llen('list')]).toEqual(['1', 'abc', 1]);
  });

  test('is not deleted by a reset', async () => {
    for (const key of ['text', 'list'])
      expect(await apply({ ...shared(key, 0), kind: 'forget' })).toMatchObject([{ code: 'UNAVAILABLE' }]);
    expect([await operator.get('text'), await operator.llen('list')]).toEqual(['abc', 1]);
  });

  test('lets a set of limits spend nothing', async () => {
    await applyAs('all_or_nothing', shared('b', 1), shared('list', 1));
    expect(await operator.get('b')).toBe('0');
  });
});

test("a shared counter in a set spends like the set, beside Weir's own counters", async () => {
  const own = operationOf({ key: 'own' as CounterKey }, slidingWindowLogOf(9, unitMs.DAY), 1, true);
  const look = async () => (await apply({ ...own, hits: 0 }))[0];
  const set = [shared('a', 2), own, shared('full', 1, 0)];
  expect(await applyAs('all_or_nothing', ...set)).toMatchObject([
    { code: 'OK' },
    { code: 'OK' },
    { code: 'OVER_LIMIT' },
  ]);
  expect([await operator.get('a'), await operator.get('full')]).toEqual(['0', '0']);
  expect(await look()).toMatchObject({ limitRemaining: 9 });
  await applyAs('spare_others', ...set);
  expect([await operator.get('a'), await operator.get('full')]).toEqual(['0', '1']);
  expect((await kept('a'))[1]).toBe(TTL_S);
  await applyAs('spare_others', shared('a', 2), own, shared('full', 1, 0, false)); // its refusal blocks nothing
  expect([await operator.get('a'), await operator.get('full')]).toEqual(['2', '2']);
  expect(await look()).toMatchObject({ limitRemaining: 8 });
});
