import { createHash } from 'node:crypto';
import type { Redis as Connection } from 'ioredis';
import { MAX_COUNT, type Spend, spends, unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Operation } from '../../../src/engine/backends/backend.ts';
import { type CounterKey, childKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import {
  fullCapacity,
  isShared,
  type Limit,
  limitsInFlight,
  longestMemoryMs,
} from '../../../src/engine/holds/limits.ts';
import { type Debit, sharedBy } from '../../../src/engine/ledger/debit.ts';
import { type BatchRequest, encodeBatch } from '../../../src/parts/redis/batch.ts';
import { decodeBatch } from '../../../src/parts/redis/batch-reply.ts';
import { script } from '../../../src/parts/redis/script.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import {
  adaptiveOf,
  allocationOf,
  anyAnchoredLimit,
  anyLimitOf,
  calendarWindowOf,
  fixedWindowOf,
  inFlightOf,
  leakyBucketOf,
  reservationOf,
  siteShareOf,
  slidingWindowBucketsOf,
  slidingWindowCounterOf,
  slidingWindowLogOf,
  tokenBucketOf,
} from '../../helpers/limits.ts';
import { heldBy, operationOf } from '../../helpers/operations.ts';
import fc from '../../helpers/property.ts';
import { randomOf } from '../../helpers/random.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { fairShareOf, sharedSlotsOf } from '../../helpers/shares.ts';

/** `RECORDED_ROUNDS=1250` runs 10^6 operations. */
const ROUNDS_OF_A_MILLION = 1_250;
const ROUNDS = Number(process.env.RECORDED_ROUNDS ?? 20);
/**
 * Digests of what the script answered, stored and booked as usage when it was written by hand in Lua. Shared rates are
 * stored in another format since.
 */
const recorded: Readonly<Record<number, string>> = { 20: '3a42ea782e72ad76', 1250: '28316ee5fa411e6b' };

const BATCHES = 40;
const START_MS = 1_700_000_000_000;
/** Children are remembered for longer than a round takes: which of the forgotten ones Redis removes is chance. */
const MOST_MS = 800;

let server: Redis;
let connection: Connection;
beforeAll(async () => {
  server = await startRedis();
  connection = await openReady(server);
  await connection.script('LOAD', script.text);
});
afterAll(async () => {
  connection.disconnect();
  await server.stop();
});

const path = [
  { key: 'a', reserve: 3, weight: 2, ceiling: 8 },
  { key: 'b', reserve: 1, weight: 1, ceiling: 0 },
];
const limits: readonly Limit[] = [
  fixedWindowOf(20, 9_000, { soft: 5 }),
  fixedWindowOf(20, 9_000, { alignment: 'first_hit' }),
  fixedWindowOf(9, 3_600_000),
  calendarWindowOf(20, 'HOUR', 'Europe/Berlin'),
  slidingWindowLogOf(20, 9_000),
  slidingWindowLogOf(20, 9_000, { countDenied: true, soft: 5 }),
  slidingWindowCounterOf(20, 9_000, { rounding: 'up' }),
  slidingWindowBucketsOf(20, 9_000, { buckets: 6 }),
  tokenBucketOf(20, 9_000, { burst: 30 }),
  leakyBucketOf(20, 9_000, { burst: 5, maxDelayMs: 900 }),
  allocationOf(20),
  inFlightOf(10, 9_000),
  sharedSlotsOf(10, 9_000, { path }),
  reservationOf(fixedWindowOf(20, 9_000), { ttlMs: 3_000 }),
  reservationOf(slidingWindowLogOf(20, 9_000), { ttlMs: 3_000, onLapse: 'charge', onOverrun: 'clip' }),
  adaptiveOf(20, 9_000),
  siteShareOf(60, 9_000, { sites: 3 }),
];
/** Under this one, some counters are shared with envoyproxy/ratelimit. */
const SHARED = limits[2];
const COUNTERS = 2;

/** Draws what batches have; the same for the same seed. */
function drawer(seed: number, from: readonly Limit[]) {
  const random = randomOf(seed);
  const below = (bound: number): number => Math.floor(random() * bound);
  const oneOf = <T>(choices: readonly T[]): T => choices[below(choices.length)] as T; // in range
  const claimed = (plain: Debit, limit: Limit): Operation => {
    const held = heldBy(plain, below(6));
    const children = [1 + below(4), 9 + below(3)];
    if (limitsInFlight(limit) && isShared(limit)) return sharedBy(held, { children });
    if (isShared(limit))
      return {
        ...sharedBy(held, { children: children.slice(0, 1 + below(2)) }),
        usageKey: childKey(plain.key, children[0] ?? 0),
      };
    return limit.algorithm === 'reservation' ? { ...held, commits: below(3) === 0 } : held;
  };
  const kindOf = (spend: Spend, hits: number, { algorithm }: Limit): Operation['kind'] => {
    if (hits < 0) return 'give_back';
    if (below(3) > 0) return 'spend';
    const kind = spend === 'each' ? oneOf(['charge', 'refund', 'forget', 'peek'] as const) : 'peek';
    if (from === limits && algorithm === 'reservation' && kind === 'refund') return 'spend'; // as it was recorded
    return kind;
  };
  const operation = (spend: Spend, nowMs: number): Operation => {
    const limit = oneOf(from);
    const key = `${from.indexOf(limit)}.${below(COUNTERS)}` as CounterKey; // any text will do
    const hits = oneOf([0, 1, 1, 1, 2, 3, -1, -below(5), fullCapacity(limit), below(9) === 0 ? MAX_COUNT : 1]);
    const kind = kindOf(spend, hits, limit);
    const claim = claimed({ ...operationOf({ key }, limit, hits, below(6) > 0), hits: Math.abs(hits) }, limit);
    const isForeign = limit === SHARED && spend === 'each' && kind !== 'forget' && below(2) === 0; // the script by hand failed after a reset
    const foreign = { key: `shared.${below(COUNTERS)}`, shared: { windowStartMs: START_MS, ttlMs: 3_600_000 } };
    const metered = below(2) === 0 ? { metered: below(4) === 0 ? 'all' : true } : {};
    const chargedAtMs =
      kind === 'refund' ? { chargedAtMs: nowMs - below(Math.min(5_000, longestMemoryMs(limit))) } : {};
    return { ...claim, ...(isForeign ? foreign : {}), ...metered, kind, ...chargedAtMs } as Operation; // of its kind
  };
  const batch = (nowMs: number): readonly BatchRequest[] =>
    Array.from({ length: 1 + below(12) }, () => {
      const spend = spends[below(5)] ?? 'each';
      const length = 1 + below(below(4) === 0 ? 12 : 3);
      return { operations: Array.from({ length }, () => operation(spend, nowMs)), spend };
    });
  return { below, batch };
}

/** The usage of a batch, which is dropped. */
async function takeUsage(): Promise<unknown> {
  const logged = await connection.lrangeBuffer('log', 0, -1);
  await connection.del('log', 'usage');
  return logged.flatMap((entry) => {
    let from = 8 * (2 + 2 * entry.readDoubleLE(8));
    return Array.from({ length: entry.readDoubleLE(8) }, (_, at) => {
      const first = from;
      from += entry.readDoubleLE(24 + 16 * at);
      return `${entry.toString('utf8', first, from)} ${entry.readDoubleLE(16 + 16 * at)}`;
    }).toSorted();
  });
}

/** The contents of counters. */
async function readBack(keys: readonly string[]): Promise<unknown> {
  const calls = connection.pipeline();
  for (const key of keys) calls.getBuffer(key);
  for (const key of keys) calls.hgetallBuffer(key);
  const found = (await calls.exec()) ?? [];
  return found.map(([, value]) => {
    if (Buffer.isBuffer(value)) return value.toString('hex');
    const fields = Object.entries((value ?? {}) as Record<string, Buffer>); // HGETALL of a hash, or an error
    return fields
      .filter(([, bytes]) => bytes.some((byte) => byte !== 0)) // whether a node that is as new is kept is chance
      .map(([field, bytes]) => `${field} ${bytes.toString('hex')}`)
      .toSorted();
  });
}

/** Sends batches, whose answers must be those of memory. Returns a digest, and the number of operations. */
async function runRound(seed: number, from: readonly Limit[], leapMs: number) {
  await connection.flushall();
  const hash = createHash('sha256');
  const { below, batch: drawBatch } = drawer(seed, from);
  const clock = fakeClock(START_MS);
  const memory = createMemoryBackend(clock, { maxCounters: 1_000 });
  let operations = 0;
  for (let sent = 0; sent < BATCHES; sent++) {
    clock.set(clock() + (below(3) === 0 ? below(leapMs) : below(20)));
    const requests = drawBatch(clock());
    const batch = encodeBatch(requests, clock(), { metersUsage: true });
    const keys = [...batch.keys, 'usage', 'log'];
    const args = [script.sha1, keys.length, ...keys, batch.packed, clock(), '', '', '1', ...batch.usageNames];
    const run = connection.multi().callBuffer('EVALSHA', args);
    for (const key of batch.keys) run.persist(key); // Redis would expire it by a time that passes, unlike the clock's
    const [[error, packed] = []] = (await run.exec()) ?? [];
    if (error) throw error;
    const replies = decodeBatch(packed as Buffer, batch); // it returns bytes
    hash.update(JSON.stringify([replies, await readBack(batch.keys), await takeUsage()]));
    operations += batch.operationCount;
    for (const [at, request] of requests.entries()) {
      const isOwn = request.operations.map(({ shared }) => shared === undefined);
      const own = request.operations.filter((_, place) => isOwn[place]);
      const expected = await memory.run(own, { spend: request.spend, timeoutMs: 1 });
      expect(replies[at]?.filter((_, place) => isOwn[place])).toEqual(expected);
    }
  }
  return { digest: hash.digest('hex'), operations };
}

test(
  `${ROUNDS} rounds of batches are answered as in memory, and stored and booked as recorded`,
  async () => {
    const hash = createHash('sha256');
    let operations = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const ran = await runRound(round, limits, MOST_MS);
      hash.update(ran.digest);
      operations += ran.operations;
    }
    const digest = hash.digest('hex').slice(0, 16);
    if (ROUNDS === ROUNDS_OF_A_MILLION) expect(operations).toBeGreaterThan(1_000_000);
    expect({ [ROUNDS]: digest }).toEqual({ [ROUNDS]: recorded[ROUNDS] });
  },
  ROUNDS * 10_000,
);

const kinds = Object.entries(anyLimitOf) as [string, fc.Arbitrary<Limit>][]; // each of its own kind
const others = [
  ['windows with an anchor', anyAnchoredLimit],
  ['shared rates', fc.constant(fairShareOf(20, { path, reserved: 3 }))],
] as const;
test.each([...kinds, ...others])('any limits by %s are counted as in memory', async (_, any) => {
  for (const [seed, limit] of fc.sample(any, { numRuns: 12, seed: 68 }).entries())
    await runRound(seed, [limit], Math.min(limit.windowMs, unitMs.DAY));
});
