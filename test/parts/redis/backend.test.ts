import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis as Connection } from 'ioredis';
import { monotonicMs } from '../../../src/base/clock.ts';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Backend, RequestOperation } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import { packNumbers, unpackState } from '../../../src/engine/backends/packed-state.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { backendConformance } from '../../engine/backends/conformance.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { open, openReady } from '../../helpers/connection.ts';
import { calendarWindowOf, fixedWindowOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { eventually } from '../../helpers/until.ts';

const TIMEOUT_MS = 10_000;
const SHORT_MS = 50;
const FOREVER_MS = 1_000_000;
const POLL_MS = 10;
/** As in scripts/dispatcher.ts: counters with a given clock stay this much longer, since the clock may be behind the server's. */
const MAX_BEHIND_MS = 10_000;

let server: Redis;
let operator: Connection; // inspects and changes the server, independently of the stores
beforeAll(async () => {
  server = await startRedis();
  operator = await openReady(server);
});
afterAll(async () => {
  operator.disconnect();
  await server.stop();
});

backendConformance(
  'a Redis store',
  async (clock) => new RedisBackend(await openReady(server), clock, { replay: true }),
);

const fresh = (requestsPerUnit = 1_000, windowMs: number = unitMs.YEAR): RequestOperation => {
  const limit = fixedWindowOf(requestsPerUnit, windowMs);
  return operationOf({ key: createCounterKeys(`${randomUUID()}:`)(limit, 'domain', []) }, limit, 1, true);
};

async function apply(store: Backend, hit: RequestOperation, timeoutMs = TIMEOUT_MS) {
  const [decision] = await store.run([hit], { spend: 'each', timeoutMs });
  return decision;
}

/** Repeats a hit until the store can answer. */
async function applyWhenReady(store: Backend, hit: RequestOperation) {
  for (;;) {
    const decision = await apply(store, hit);
    if (decision?.code !== 'UNAVAILABLE') return decision;
    await delay(POLL_MS);
  }
}

async function serverTimeMs(): Promise<number> {
  const [seconds, micros] = await operator.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

describe('a Redis store', () => {
  let store: Backend;
  beforeEach(async () => {
    store = new RedisBackend(await openReady(server), Date.now);
  });
  afterEach(() => store.close());

  test('continues to count when the server has lost the script', async () => {
    const hit = fresh();
    for (const hitsBefore of [0, 1, 2, 3]) {
      if (hitsBefore % 2 === 0) await operator.script('FLUSH');
      expect(await apply(store, hit)).toMatchObject({ code: 'OK', hitsBefore });
    }
  });

  test("uses the server's clock", async () => {
    const beforeMs = await serverTimeMs();
    const decision = await apply(store, fresh());
    const afterMs = await serverTimeMs();
    if (decision?.code !== 'OK') throw new Error(`expected OK, got ${JSON.stringify(decision)}`);
    const endMs = beforeMs - (beforeMs % unitMs.YEAR) + unitMs.YEAR;
    expect(endMs - decision.durationUntilResetMs).toBeGreaterThanOrEqual(beforeMs);
    expect(endMs - decision.durationUntilResetMs).toBeLessThanOrEqual(afterMs);
  });

  test.each([unitMs.HOUR, unitMs.DAY, unitMs.YEAR])(
    'lets a counter expire when its window of %d ms ends',
    async (windowMs) => {
      const hit = fresh(1, windowMs);
      const beforeMs = await serverTimeMs();
      await apply(store, hit);
      const expiresAtMs = await operator.pexpiretime(hit.key);
      const afterMs = await serverTimeMs();
      const endMs = (nowMs: number) => nowMs - (nowMs % windowMs) + windowMs;
      expect(expiresAtMs).toBeGreaterThanOrEqual(endMs(beforeMs));
      expect(expiresAtMs).toBeLessThanOrEqual(endMs(afterMs) + (afterMs - beforeMs)); // the server may set it some ms after it read the clock
    },
  );

  test('keeps a counter by its own clock if it has one', async () => {
    const clock = fakeClock();
    const replaying = new RedisBackend(await openReady(server), clock, { replay: true });
    const hit = fresh(1, unitMs.HOUR);
    const leftMs = unitMs.HOUR - (clock() % unitMs.HOUR);
    const beforeMs = await serverTimeMs();
    await apply(replaying, hit);
    const expiresAtMs = await operator.pexpiretime(hit.key);
    const afterMs = await serverTimeMs();
    await replaying.close();
    expect(expiresAtMs).toBeGreaterThanOrEqual(beforeMs + leftMs + MAX_BEHIND_MS);
    expect(expiresAtMs).toBeLessThanOrEqual(afterMs + leftMs + MAX_BEHIND_MS);
  });

  test.each([0, -30, 30, -300, 300])('counts calendar windows with its own clock %d minutes off', async (minutes) => {
    const skewed = new RedisBackend(await openReady(server), () => Date.now() + minutes * unitMs.MINUTE);
    const limit = calendarWindowOf(1, 'HOUR', 'Asia/Kolkata');
    const key = createCounterKeys(`${randomUUID()}:`)(limit, 'domain', []);
    const hit = operationOf({ key }, limit, 1_000, true); // refused, and counted
    await apply(skewed, hit);
    const again = await apply(skewed, hit);
    await skewed.close();
    expect(again).toMatchObject({ hitsBefore: 1_000 });
  });

  test('restarts a counter whose key holds another type', async () => {
    const hit = fresh();
    await operator.rpush(hit.key, 'not', 'a', 'counter');
    expect(await apply(store, hit)).toMatchObject({ code: 'OK', hitsBefore: 0 });
    expect(await apply(store, hit)).toMatchObject({ code: 'OK', hitsBefore: 1 });
    expect(await operator.type(hit.key)).toBe('string');
  });

  test.each(['', 'hello', 'a state of three numbers', '8 octets', 'zzzzzzzzzzzzzzzz'])(
    'restarts a counter whose key holds the text %j',
    async (foreign) => {
      const hit = fresh();
      await operator.set(hit.key, foreign);
      expect(await apply(store, hit)).toMatchObject({ code: 'OK', hitsBefore: 0 });
      expect(await apply(store, hit)).toMatchObject({ code: 'OK', hitsBefore: 1 });
    },
  );

  test('restarts a counter with a count that is no integer', async () => {
    const hit = fresh();
    await apply(store, hit);
    const [startMs = 0] = unpackState((await operator.getBuffer(hit.key)) ?? Buffer.alloc(0)) ?? [];
    await operator.set(hit.key, packNumbers([startMs, 0.5]));
    expect(await apply(store, hit)).toMatchObject({ code: 'OK', hitsBefore: 0 });
  });

  test("reports the server's own error message", async () => {
    await operator.config('SET', 'maxmemory', '1');
    const hits = [fresh(), fresh()];
    const refused = await store.run(hits, { spend: 'each', timeoutMs: TIMEOUT_MS });
    await operator.config('SET', 'maxmemory', '0');
    const reason = expect.stringMatching(/^redis: OOM command not allowed/);
    expect(refused).toEqual(hits.map(() => ({ code: 'UNAVAILABLE', reason })));
    expect(store.health()).toEqual({ ready: true });
    expect(await apply(store, fresh())).toMatchObject({ code: 'OK', hitsBefore: 0 });
  });
});

describe('a Redis store that loses its server', () => {
  let fragile: Redis;
  let store: Backend;
  beforeEach(async () => {
    fragile = await startRedis();
    store = new RedisBackend(open(fragile), Date.now);
  });
  afterEach(async () => {
    await store.close();
    await fragile.stop();
  });

  test('reports this at once, and recovers when the server is back', async () => {
    const hit = fresh();
    await applyWhenReady(store, hit);
    await fragile.stop();
    await eventually(() => !store.health().ready);
    expect(await apply(store, hit, FOREVER_MS)).toEqual({
      code: 'UNAVAILABLE',
      reason: expect.stringMatching(/^redis: ./),
    });
    await fragile.restart();
    expect(await applyWhenReady(store, hit)).toMatchObject({ code: 'OK', hitsBefore: 0 });
    expect(store.health()).toEqual({ ready: true });
  });

  test('fails a call whose connection breaks, and never repeats it', async () => {
    const hit = fresh();
    await applyWhenReady(store, hit);
    const connection = await openReady(fragile);
    await connection.client('PAUSE', FOREVER_MS, 'ALL');
    connection.disconnect();
    const underWay = apply(store, hit, FOREVER_MS);
    await fragile.restart();
    const reason = expect.stringMatching(/^redis: ./);
    expect(await underWay).toEqual({ code: 'UNAVAILABLE', reason, isUnknown: true });
    expect(await applyWhenReady(store, hit)).toMatchObject({ code: 'OK', hitsBefore: 0 });
  });

  test('is silent while it owes a reply for much longer than replies take', async () => {
    await store.close();
    store = new RedisBackend(await openReady(fragile), Date.now);
    const hit = fresh();
    await applyWhenReady(store, hit);
    expect(store.isSilent?.(hit, monotonicMs() + TIMEOUT_MS)).toBe(false);
    fragile.pause();
    const owed = apply(store, hit);
    await eventually(() => store.isSilent?.(hit, monotonicMs() + TIMEOUT_MS) === true);
    expect(store.isSilent?.(hit, 0)).toBe(false);
    fragile.resume();
    await owed;
    expect(store.isSilent?.(hit, monotonicMs() + TIMEOUT_MS)).toBe(false);
  });

  test('fails a call after its timeout, and counts it once if it still arrives', async () => {
    await store.close();
    store = new RedisBackend(await openReady(fragile), Date.now); // keeps its connection until the server answers
    const hit = fresh();
    expect(await applyWhenReady(store, hit)).toMatchObject({ hitsBefore: 0 });
    fragile.pause();
    expect(await apply(store, hit, SHORT_MS)).toEqual({
      code: 'UNAVAILABLE',
      reason: `redis: no reply within ${SHORT_MS} ms`,
      isUnknown: true,
    });
    fragile.resume();
    expect(await applyWhenReady(store, hit)).toMatchObject({ code: 'OK', hitsBefore: 2 });
  });
});

test('a Redis store drops a silent connection, reports this, and recovers once the server answers again', async () => {
  const server = await startRedis();
  const store = new RedisBackend(open(server), Date.now);
  const hit = fresh();
  expect(await applyWhenReady(store, hit)).toMatchObject({ hitsBefore: 0 });
  server.pause();
  expect(await apply(store, hit, SHORT_MS)).toMatchObject({ code: 'UNAVAILABLE' });
  await eventually(() => !store.health().ready);
  expect(store.health()).toEqual({ ready: false, reason: expect.stringContaining('no reply within 1000 ms') });
  server.resume();
  expect(await applyWhenReady(store, hit)).toMatchObject({ code: 'OK' });
  await store.close();
  await server.stop();
});

test('a Redis store whose server is not up yet reports why, and recovers once it is', async () => {
  const late = await startRedis();
  await late.stop();
  const store = new RedisBackend(open(late), Date.now);
  const hits = [fresh(), fresh()];
  const notYet = { code: 'UNAVAILABLE', reason: 'redis: not connected yet' };
  expect(await store.run(hits, { spend: 'each', timeoutMs: FOREVER_MS })).toEqual([notYet, notYet]);
  await eventually(() => JSON.stringify(store.health()).includes('ECONNREFUSED'));
  const refused = expect.stringContaining('ECONNREFUSED');
  expect(store.health()).toEqual({ ready: false, reason: refused });
  expect(await apply(store, fresh(), FOREVER_MS)).toEqual({ code: 'UNAVAILABLE', reason: refused });
  await late.restart();
  expect(await applyWhenReady(store, fresh())).toMatchObject({ code: 'OK', hitsBefore: 0 });
  await store.close();
  await late.stop();
});
