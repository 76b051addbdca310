import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import type { Redis as Connection } from 'ioredis';
import { algorithmFor } from '../../src/algorithms/index.ts';
import { type Decision, type Limit, MAX_COUNT, type State } from '../../src/algorithms/limit.ts';
import { type CounterKey, createCounterKeys } from '../../src/stores/key.ts';
import { decodeBatch, encodeBatch } from '../../src/stores/redis/batch.ts';
import { script } from '../../src/stores/redis/script.ts';
import type { Hit } from '../../src/stores/store.ts';
import { openReady } from '../helpers/connection.ts';
import { anyRequestsPerUnit, anyWindowMs, fixedWindowOf } from '../helpers/limits.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';

const RUNS = 300;
const START_MS = 1_700_000_000_000;

let server: Redis;
let connection: Connection;
beforeAll(async () => {
  server = await startRedis();
  connection = await openReady(server);
});
afterAll(async () => {
  connection.disconnect();
  await server.stop();
});

/** One apply: where the clock goes first, which counters are lost early, and who is hit. Counters are named by place. */
interface Call {
  readonly move: Move;
  readonly lost: readonly number[];
  readonly hits: readonly { readonly counter: number; readonly hits: number }[];
}

/** By so much, or to a boundary of the first counter's window and a little beside it. */
type Move = { readonly byMs: number } | { readonly windows: number; readonly besideMs: number };

const anyMove: fc.Arbitrary<Move> = fc.oneof(
  fc.record({ byMs: fc.integer({ min: -5_000, max: 5_000 }) }),
  fc.record({ byMs: fc.integer({ min: -20_000_000_000, max: 20_000_000_000 }) }),
  fc.record({ windows: fc.integer({ min: -1, max: 2 }), besideMs: fc.integer({ min: -1, max: 1 }) }),
);

const anyHits = (limits: readonly Limit[]): fc.Arbitrary<number> =>
  fc.oneof(
    fc.integer({ min: -3, max: 10 }),
    fc.constant(0),
    fc.constantFrom(...limits.flatMap(({ requestsPerUnit: limit }) => [limit, limit + 1, 1 - limit])),
    fc.integer({ min: -MAX_COUNT, max: MAX_COUNT }),
    fc.constantFrom(MAX_COUNT, -MAX_COUNT),
  );

const anyCalls = (limits: readonly Limit[]): fc.Arbitrary<readonly Call[]> => {
  const counter = fc.nat({ max: limits.length - 1 });
  return fc.array(
    fc.record({
      move: anyMove,
      lost: fc.oneof({ weight: 4, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.array(counter) }),
      hits: fc.array(fc.record({ counter, hits: anyHits(limits) }), { minLength: 1, maxLength: 5 }),
    }),
    { minLength: 1, maxLength: 12 },
  );
};

const anyLimit: fc.Arbitrary<Limit> = fc
  .record({ requestsPerUnit: anyRequestsPerUnit, windowMs: anyWindowMs })
  .map(({ requestsPerUnit, windowMs }) => fixedWindowOf(requestsPerUnit, windowMs));

const anySchedule = fc
  .array(anyLimit, { minLength: 1, maxLength: 3 })
  .chain((limits) => fc.record({ limits: fc.constant(limits), calls: anyCalls(limits) }));

function moved(nowMs: number, move: Move, windowMs: number): number {
  if ('byMs' in move) return nowMs + move.byMs;
  return nowMs - (nowMs % windowMs) + move.windows * windowMs + move.besideMs;
}

/** What the TypeScript twins say; they remember in `states`. */
function inTypeScript(states: Map<CounterKey, State>, hits: readonly Hit[], nowMs: number): Decision[] {
  return hits.map(({ key, limit, hits: count }) => {
    const { accepted, state } = algorithmFor(limit).step(limit, states.get(key), nowMs, count);
    states.set(key, state);
    return algorithmFor(limit).describe(limit, state, nowMs, count, accepted);
  });
}

/**
 * What the Lua twins say. The schedule's clock is not the server's, so nothing may expire by the server's: time stands
 * still within a transaction, and its end takes the expiry off again.
 */
async function inLua(hits: readonly Hit[], lost: readonly CounterKey[], nowMs: number): Promise<readonly Decision[]> {
  const { keys, packed } = encodeBatch(hits);
  const transaction = connection.multi();
  for (const key of lost) transaction.del(key);
  transaction.callBuffer('EVAL', script.text, keys.length, ...keys, packed, nowMs);
  for (const key of keys) transaction.persist(key);
  const replies = (await transaction.exec()) ?? [];
  const [error, reply] = replies[lost.length] ?? [];
  if (error) throw error;
  return decodeBatch(reply as Buffer, hits); // the script's reply is bytes
}

test('the Lua twins agree with the TypeScript twins to the integer', async () => {
  await fc.assert(
    fc.asyncProperty(anySchedule, async ({ limits, calls }) => {
      const counterKeys = createCounterKeys(`${randomUUID()}:`);
      const counters = limits.map((limit, at) => ({ limit, key: counterKeys(limit, String(at), []) }));
      const named = (places: readonly number[]) => places.flatMap((place) => counters[place] ?? []);
      const states = new Map<CounterKey, State>();
      const expected: Decision[][] = [];
      const got: Promise<readonly Decision[]>[] = []; // answered in the order asked, so none has to be waited for
      let nowMs = START_MS;
      for (const { move, lost, hits } of calls) {
        nowMs = moved(nowMs, move, limits[0]?.windowMs ?? 1);
        const lostKeys = named(lost).map(({ key }) => key);
        for (const key of lostKeys) states.delete(key);
        const batch = hits.flatMap(({ counter, hits }) => named([counter]).map((found) => ({ ...found, hits })));
        expected.push(inTypeScript(states, batch, nowMs));
        got.push(inLua(batch, lostKeys, nowMs));
      }
      expect(await Promise.all(got)).toEqual(expected);
    }),
    { numRuns: RUNS },
  );
});
