import { RedisShares } from '../../../src/parts/quotas/redis-shares.ts';
import { MemoryShares, type PoolReport } from '../../../src/parts/quotas/share-store.ts';
import type { RedisConnection } from '../../../src/parts/redis/connect.ts';
import { scriptRunner } from '../../../src/parts/redis/open.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import fc from '../../helpers/property.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

const terms = { ttlMs: 60_000, transitMs: 2_000, silenceMs: 15_000 };

let server: Redis;
let redis: RedisConnection;
beforeAll(async () => {
  server = await startRedis();
  redis = await openReady(server);
  redis.on('error', () => {});
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

const anyReport = fc.record({
  afterMs: fc.integer({ min: 0, max: 40_000 }),
  holder: fc.constantFrom('a', 'b', 'c', 'd'),
  requests: fc.oneof(fc.integer({ min: 0, max: 2_000 }), fc.integer({ min: 0, max: 2 ** 40 })),
  elapsedMs: fc.oneof(fc.constantFrom(0, 499, 500, 5_000), fc.double({ min: 0, max: 20_000, noNaN: true })),
  isConfirmed: fc.boolean(),
  isResumed: fc.boolean(),
  isStale: fc.boolean(),
  leaves: fc.integer({ min: 0, max: 9 }).map((number) => number === 0),
});

test('pools in Redis give the same shares as those in memory', async () => {
  let run = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyReport, { minLength: 1, maxLength: 40 }),
      fc.record({
        units: fc.oneof(fc.integer({ min: 1, max: 10_000 }), fc.integer({ min: 1, max: 2 ** 32 - 1 })),
        fillMs: fc.constantFrom(1_000, 60_000, 86_400_000),
        burst: fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 2 ** 32 - 1 })),
      }),
      async (reports, pool) => {
        const clock = fakeClock();
        const stores = [
          new MemoryShares(clock, terms, 2 ** 26),
          new RedisShares(scriptRunner(redis), { terms, timeoutMs: 10_000, clock }),
        ];
        const key = `pool-${++run}`;
        const sent = new Map<string, number>();
        for (const { afterMs, isStale, ...report } of reports) {
          clock.advance(afterMs);
          const numbered = { ...report, sent: isStale ? 0 : (sent.get(report.holder) ?? 0) };
          const step: PoolReport = { key, pool, report: numbered };
          const [expected, found] = await Promise.all(stores.map((store) => store.step([step])));
          expect(found).toEqual(expected);
          const share = expected?.[0];
          if (share && 'number' in share) sent.set(report.holder, share.number);
        }
      },
    ),
    { numRuns: 100 },
  );
});

test('reports of many holders at once, through several processes, share no more than the rate', async () => {
  const processes = Array.from({ length: 4 }, () => new RedisShares(scriptRunner(redis), { terms, timeoutMs: 60_000 }));
  const report = { requests: 1_000, elapsedMs: 1_000, sent: 0, isConfirmed: false, isResumed: false, leaves: false };
  const pool = { units: 4_096, fillMs: 1_000, burst: 4_096 };
  const steps = Array.from({ length: 40 }, (_, at) =>
    (processes[at % 4] as RedisShares).step(
      ['x', 'y', 'z'].map((name) => ({ key: 'crowded', pool, report: { ...report, holder: `${name}${at}` } })),
    ),
  );
  const shares = (await Promise.all(steps)).flat();
  const units = shares.map((share) => (share && 'units' in share ? share.units : Number.NaN));
  expect(units).toHaveLength(120);
  const sum = units.reduce((total, one) => total + one, 0);
  expect(sum).toBeGreaterThan(4_000);
  expect(sum).toBeLessThanOrEqual(4_096);
});

test('several reports are sent to Redis together, and keys expire with the shares', async () => {
  const shares = new RedisShares(scriptRunner(redis), {
    terms: { ...terms, ttlMs: 100, transitMs: 0, silenceMs: 200 },
    timeoutMs: 5_000,
  });
  const report = { requests: 1, elapsedMs: 0, sent: 0, isConfirmed: false, isResumed: false, leaves: false };
  const pool = { units: 128, fillMs: 1_000, burst: 10 };
  const holder = { ...report, holder: 'a' };
  expect(await shares.step(['x', 'y'].map((key) => ({ key, pool, report: holder })))).toEqual([
    { number: 1, units: 127, burst: 10 },
    { number: 1, units: 127, burst: 10 },
  ]);
  for (const key of ['x', 'y']) expect(await redis.pttl(key)).toBeLessThanOrEqual(200);
});

test('pools in memory are bounded in bytes, beyond which there is no further pool or holder', async () => {
  const clock = fakeClock();
  const shares = new MemoryShares(clock, terms, 4_096);
  const report = { requests: 1, elapsedMs: 0, sent: 0, isConfirmed: false, isResumed: false, leaves: false };
  const of = (key: string, holder: string): PoolReport => ({
    ...{ key, pool: { units: 128, fillMs: 1_000, burst: 10 } },
    report: { ...report, holder },
  });
  const keys = Array.from({ length: 20 }, (_, at) => `pool-${at}`);
  const replies = await shares.step(keys.map((key) => of(key, 'a')));
  const taken = replies.filter((reply) => reply && 'number' in reply).length;
  expect(taken).toBe(shares.size);
  expect(taken).toBeGreaterThan(3);
  expect(taken).toBeLessThan(20);
  expect(shares.bytes).toBeLessThanOrEqual(4_096);
  const second = [];
  for (let at = 0; at < 20; at++) second.push(...(await shares.step([of('pool-0', `b${at}`)])));
  expect(second.at(-1)).toEqual({ reason: expect.stringContaining('RLQS_MAX_BYTES') });
  expect(shares.bytes).toBeLessThanOrEqual(4_096);
  clock.advance(100_000);
  for (let at = 0; at < 40; at++) await shares.step([of('new', 'a')]);
  expect(shares.size).toBe(1);
  const fresh = new MemoryShares(clock, terms, 4_096);
  await fresh.step([of('new', 'a')]);
  expect(shares.bytes).toBe(fresh.bytes);
});

test('reports cannot be processed while Redis is down', async () => {
  await server.stop();
  const shares = new RedisShares(scriptRunner(redis), { terms, timeoutMs: 1_000 });
  const report = { requests: 1, elapsedMs: 0, sent: 0, isConfirmed: false, isResumed: false, leaves: false };
  const pool = { units: 128, fillMs: 1_000, burst: 10 };
  expect(await shares.step([{ key: 'x', pool, report: { ...report, holder: 'a' } }])).toEqual([
    { reason: expect.any(String) },
  ]);
  await server.restart();
});
