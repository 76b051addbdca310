import { createClient } from '../../client/src/index.ts';
import { createEngine, type EngineOptions } from '../../src/engine/index.ts';
import { fakeClock } from '../helpers/clock.ts';
import { startRedis } from '../helpers/redis.ts';
import { closeAll, closeLater, openClient, RULES, startService, TIMEOUT_MS } from './service.ts';

afterEach(closeAll);

const RULE_OPTIONS = { text: RULES };
const openEngine = async (options: Partial<EngineOptions> = {}) =>
  openClient({ engine: await createEngine({ rules: RULE_OPTIONS, ...options }) });

test('a client with an engine decides as a service does', async () => {
  const service = await startService(RULES);
  const clients = [await openClient({ target: service.grpc, refusals: false }), await openEngine()];
  const calls = [
    [{ user: 'a' }, 3],
    [{ user: 'a' }, 3],
    [{ user: 'a' }, 0],
    [{ user: 'a' }, -2],
    [[{ user: 'a' }, { api_key: 'k' }], 5],
    [[{ api_key: 'k' }, { user: 'b' }], 2],
    [{ free: 'x' }, 1],
    [{ unknown: 'x' }, 1],
    [{ user: 'a' }, 6],
    [{ trial: 'a' }, 2],
    [{ bucket: 'a' }, 1],
  ] as const;
  for (const [descriptors, hits] of calls) {
    const [overGrpc, byEngine] = await Promise.all(
      clients.map(async (client) => {
        const decision = await client.limit('demo', descriptors, { hits });
        const withoutTimes = ({
          resetMs,
          unspentMs,
          retryAfterMs,
          ...state
        }: typeof decision | (typeof decision)['descriptors'][0]) => ({
          ...state,
          resets: resetMs !== undefined && unspentMs !== undefined,
          mayRetry: retryAfterMs !== undefined,
        });
        return { ...withoutTimes(decision), descriptors: decision.descriptors.map(withoutTimes) };
      }),
    );
    expect({ descriptors, hits, decision: byEngine }).toEqual({ descriptors, hits, decision: overGrpc });
  }
});

test('an engine in memory follows the clock of a test', async () => {
  const clock = fakeClock();
  const client = await openEngine({ clock });
  const call = () => client.limit('demo', { user: 'a' }, { hits: 5 });
  expect([(await call()).ok, (await call()).ok]).toEqual([true, false]);
  clock.advance(86_400_000);
  expect((await call()).ok).toBe(true);
  expect(client.stats()).toMatchObject({ calls: 3, allowed: 2, refused: 1, servers: [] });
});

test('an engine and a service with the same Redis share their counters', async () => {
  const redis = await startRedis();
  closeLater(() => redis.stop());
  const service = await startService(RULES, { BACKEND_TYPE: 'redis', REDIS_URL: redis.url });
  const overGrpc = await openClient({ target: service.grpc });
  const client = await openEngine({ store: { redis: `redis://${redis.url}` }, storeTimeoutMs: TIMEOUT_MS });
  await overGrpc.limit('demo', { user: 'a' }, { hits: 2 });
  expect(await client.limit('demo', { user: 'a' })).toMatchObject({ ok: true, remaining: 2, source: 'backend' });
  expect(await overGrpc.limit('demo', { user: 'a' }, { hits: 0 })).toMatchObject({ remaining: 2 });
});

test('while the Redis of an engine is down, onError decides', async () => {
  const redis = await startRedis();
  const client = await openEngine({ store: { redis: `redis://${redis.url}` } });
  await redis.stop();
  const decision = await client.limit('demo', { user: 'a' }, { onError: 'deny' });
  expect(decision).toMatchObject({ ok: false, source: 'client_deny', error: { kind: 'unavailable' } });
});

test('a request that has to take its turn is held by the client of an engine', async () => {
  const client = await openEngine();
  await client.limit('demo', { slow: 'x' }, { hits: 5 });
  const order: string[] = [];
  const call = async (name: string, hits: number) => {
    const { ok, delayMs } = await client.limit('demo', { slow: 'x' }, { hits });
    order.push(name);
    return [ok, Number(delayMs) > 0];
  };
  expect(await Promise.all([call('held', 1), call('peek', 0)])).toEqual([
    [true, true],
    [true, false],
  ]);
  expect(order).toEqual(['peek', 'held']);
});

test('errors of an engine are those of a service, and slots need a server', async () => {
  const client = await openEngine();
  await expect(client.slot('demo', { tenant: 'a' })).rejects.toMatchObject({ kind: 'unimplemented' });
  expect(() => createClient({})).toThrow('expected at least one target, or an engine');
  client.close();
  expect(await client.limit('demo', { user: 'a' })).toMatchObject({ error: { kind: 'closed' } });
});

test('a call of an engine that is aborted rejects with the reason', async () => {
  const client = await openEngine();
  const controller = new AbortController();
  const call = client.limit('demo', { user: 'a' }, { signal: controller.signal });
  controller.abort(new Error('gave up'));
  await expect(call).rejects.toThrow('gave up');
  expect(client.stats()).toMatchObject({ aborted: 1 });
});
