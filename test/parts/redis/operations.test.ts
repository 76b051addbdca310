import { randomUUID } from 'node:crypto';
import type { Operation } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { Claim } from '../../../src/engine/holds/claim.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { lastingScript } from '../../helpers/lasting-counters.ts';
import { fixedWindowOf, inFlightOf, limitsOfEach, reservationOf } from '../../helpers/limits.ts';
import { heldBy, operationOf } from '../../helpers/operations.ts';
import fc from '../../helpers/property.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

const START_MS = 1_700_000_000_000;
const WINDOW_MS = 3_600_000;
const how = { spend: 'each', timeoutMs: 10_000 } as const;

const clock = fakeClock(START_MS);
let server: Redis;
let redis: RedisBackend;
beforeAll(async () => {
  server = await startRedis();
  redis = new RedisBackend(await openReady(server), clock, { replay: true, slowMs: 60_000, script: lastingScript });
});
afterAll(async () => {
  await redis.close();
  await server.stop();
});

/** An operation on the only counter; `back` is the number of steps since the hits of a refund were charged. */
interface Planned {
  readonly kind: Operation['kind'];
  readonly hits: number;
  readonly waitMs: number;
  readonly back: number;
}

const anyPlan: fc.Arbitrary<readonly Planned[]> = fc.array(
  fc.record({
    kind: fc.constantFrom('spend', 'spend', 'peek', 'give_back', 'charge', 'refund', 'refund', 'forget'),
    hits: fc.integer({ min: 0, max: 9 }),
    waitMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: WINDOW_MS / 2 })),
    back: fc.nat({ max: 5 }),
  }),
  { minLength: 1, maxLength: 25 },
);

const slots = inFlightOf(5, WINDOW_MS);
const holders: readonly (readonly [Limit, Claim])[] = [...limitsOfEach(5, WINDOW_MS), slots].map((limit) => [
  limit,
  {},
]);
test.each(
  [...holders, [slots, { holder: 7 }] as const].map(([limit, claim]) => ({ limit, claim, name: limit.algorithm })),
)('Redis and memory agree about charges, refunds and resets of $name', async ({ limit, claim }) => {
  await fc.assert(
    fc.asyncProperty(anyPlan, async (plan) => {
      clock.set(START_MS);
      const memory = createMemoryBackend(clock, { maxCounters: 100 });
      const key = createCounterKeys(`${randomUUID()}:`)(limit, 'd', []);
      const times: number[] = [];
      for (const { kind, hits, waitMs, back } of plan) {
        clock.advance(waitMs);
        times.push(clock());
        const common = { key, limit, hits, blocks: true, ...claim };
        const operation: Operation =
          kind === 'refund' ? { ...common, kind, chargedAtMs: times.at(-1 - back) ?? START_MS } : { ...common, kind };
        expect(await redis.run([operation], how)).toEqual(await memory.run([operation], how));
      }
    }),
    { numRuns: 30 },
  );
});

/** Requests of one turn of the event loop, which go to Redis together. */
const anyTurn = fc.array(
  fc.record({
    counter: fc.constantFrom(0, 0, 0, 1),
    hits: fc.constantFrom(1, 1, 1, 1, 2, -1, 0),
    besides: fc.constantFrom(undefined, undefined, undefined, 0, 1), // the counter of another spend
    spend: fc.constantFrom('each', 'each', 'each', 'all_or_nothing', 'spare_others'),
  } as const),
  { minLength: 1, maxLength: 30 },
);

test.each([...limitsOfEach(5, WINDOW_MS), inFlightOf(5, WINDOW_MS)].map((limit) => ({ limit, name: limit.algorithm })))(
  'Redis answers concurrent requests like memory answers them one by one, by $name',
  async ({ limit }) => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyTurn, { minLength: 1, maxLength: 4 }), async (turns) => {
        clock.set(START_MS);
        const memory = createMemoryBackend(clock, { maxCounters: 100 });
        const keyOf = createCounterKeys(`${randomUUID()}:`);
        const debits = (counter: number, hits: number) =>
          operationOf({ key: keyOf(limit, 'd', [{ key: 'c', value: String(counter) }]) }, limit, hits, true);
        for (const turn of turns) {
          clock.advance(1_000);
          const requests = turn.map(({ counter, hits, besides, spend }) => ({
            operations: [debits(counter, hits), ...(besides === undefined ? [] : [debits(besides, 1)])],
            how: { spend, timeoutMs: 10_000, receipts: besides !== undefined },
          }));
          const answers = await Promise.all(requests.map((one) => redis.run(one.operations, one.how)));
          expect(answers).toEqual(requests.map((one) => memory.run(one.operations, one.how)));
        }
      }),
      { numRuns: 30 },
    );
  },
);

test('a commit at the very end of its reservation is late, as in memory', async () => {
  const limit = reservationOf(fixedWindowOf(5, WINDOW_MS), { ttlMs: 1_000 });
  const key = createCounterKeys('late:')(limit, randomUUID(), []);
  clock.set(START_MS);
  for (const store of [redis, createMemoryBackend(clock, { maxCounters: 10 })]) {
    const reserve = heldBy(operationOf({ key }, limit, 3, true), 1);
    await store.run([reserve], how);
    clock.advance(1_000);
    const [reply] = await store.run([{ ...reserve, kind: 'spend', blocks: false, commits: true }], how);
    expect(reply).toMatchObject({ reservation: { event: 'late', charged: 3 } });
  }
});

test('a refused request charges no counter that refuses only all its hits together, as in memory', async () => {
  const limit = fixedWindowOf(5, WINDOW_MS);
  const key = createCounterKeys('together:')(limit, randomUUID(), []);
  const hits = (count: number) => operationOf({ key }, limit, count, true);
  for (const store of [redis, createMemoryBackend(clock, { maxCounters: 10 })]) {
    await store.run([hits(4)], how);
    const replies = await store.run([hits(1), hits(1)], { ...how, spend: 'spare_others' });
    expect(replies).toMatchObject([{ code: 'OK' }, { code: 'OVER_LIMIT' }]);
    expect(await store.run([{ ...hits(0), kind: 'peek' }], how)).toMatchObject([{ hitsBefore: 4 }]);
  }
});

const on = (limit: Limit, hits: number): Operation =>
  operationOf({ key: createCounterKeys('once:')(limit, randomUUID(), []) }, limit, hits, true);

test('a settlement counts once, even if it is sent repeatedly or arrives after a later one', async () => {
  const one = on(fixedWindowOf(20, WINDOW_MS), 3);
  const operations: readonly Operation[] = [{ ...one, kind: 'charge' }];
  for (const number of [1, 1, 2, 1, 2])
    expect(await redis.settle({ instance: 'a', number, operations }, 10_000)).toBe(true);
  await redis.settle({ instance: 'b', number: 1, operations }, 10_000);
  expect(await redis.run([{ ...one, kind: 'peek', hits: 0 }], how)).toMatchObject([{ hitsBefore: 9 }]);
});

test("a receipt has the time of its charge by Redis' clock", async () => {
  const [reply] = await redis.run([on(fixedWindowOf(20, WINDOW_MS), 3)], { ...how, receipts: true });
  expect(reply).toMatchObject({ code: 'OK', chargedAtMs: clock() });
});
