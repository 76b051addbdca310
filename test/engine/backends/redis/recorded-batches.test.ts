import { createHash } from 'node:crypto';
import type { Redis as Connection } from 'ioredis';
import { type Spend, spends } from '../../../../src/engine/algorithms/limit.ts';
import type { Operation } from '../../../../src/engine/backends/backend.ts';
import { type CounterKey, childKey } from '../../../../src/engine/backends/key.ts';
import { encodeBatch } from '../../../../src/engine/backends/redis/batch.ts';
import { decodeBatch } from '../../../../src/engine/backends/redis/batch-reply.ts';
import { referenceCounters } from '../../../../src/engine/backends/redis/reference/counters.ts';
import { script } from '../../../../src/engine/backends/redis/script.ts';
import { fullCapacity, isShared, type Limit, limitsInFlight } from '../../../../src/engine/holds/limits.ts';
import { sharedBy } from '../../../../src/engine/ledger/debit.ts';
import { openReady } from '../../../helpers/connection.ts';
import {
  adaptiveOf,
  allocationOf,
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
} from '../../../helpers/limits.ts';
import { heldBy, operationOf } from '../../../helpers/operations.ts';
import { randomOf } from '../../../helpers/random.ts';
import { type Redis, startRedis } from '../../../helpers/redis.ts';
import { fairShareOf } from '../../../helpers/shares.ts';

/**
 * Batches at random, with the digests of what the script answered, stored and booked as usage when it was written by
 * hand in Lua; shared rates are stored in another format since. `RECORDED_ROUNDS=1210` runs 10^6 operations.
 */
const ROUNDS = Number(process.env.RECORDED_ROUNDS ?? 20);
const recorded: Readonly<Record<number, string>> = { 20: 'c68a821dc9e1b35c' };

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
  inFlightOf(10, 9_000, { path }),
  reservationOf(fixedWindowOf(20, 9_000), { ttlMs: 3_000 }),
  reservationOf(slidingWindowLogOf(20, 9_000), { ttlMs: 3_000, onLapse: 'charge', onOverrun: 'clip' }),
  adaptiveOf(20, 9_000),
  siteShareOf(60, 9_000, { sites: 3 }),
  fairShareOf(20, { path, reserved: 3 }),
];
/** The limit that a counter is shared with envoyproxy/ratelimit by. */
const SHARED = limits[2];
const COUNTERS = 2;

/** Draws what a batch has; the same numbers give the same batch. */
function drawer(seed: number) {
  const random = randomOf(seed);
  const below = (bound: number): number => Math.floor(random() * bound);
  const oneOf = <T>(choices: readonly T[]): T => choices[below(choices.length)] as T; // in range
  const claimed = (plain: Operation, limit: Limit): Operation => {
    const held = heldBy(plain, below(6));
    const children = [1 + below(4), 9 + below(3)];
    if (isShared(limit)) {
      const shared = sharedBy(held as Parameters<typeof sharedBy>[0], {
        children: children.slice(0, limitsInFlight(limit) ? 2 : 1 + below(2)),
      });
      return limitsInFlight(limit) ? shared : { ...shared, usageKey: childKey(plain.key, children[0] ?? 0) };
    }
    if (limit.algorithm === 'reservation') return { ...held, commits: below(3) === 0 };
    return held;
  };
  const kindOf = (spend: Spend, hits: number): Operation['kind'] => {
    if (hits < 0) return 'give_back';
    const rare = spend === 'each' ? (['charge', 'refund', 'forget', 'peek'] as const) : (['peek'] as const);
    return below(3) > 0 ? 'spend' : oneOf(rare);
  };
  return {
    below,
    operation(spend: Spend, nowMs: number): Operation {
      const limit = oneOf(limits);
      const key = `${limits.indexOf(limit)}.${below(COUNTERS)}` as CounterKey;
      const hits = oneOf([0, 1, 1, 1, 2, 3, -1, -below(5), fullCapacity(limit)]);
      const kind = kindOf(spend, hits);
      const plain = operationOf({ key }, limit, Math.abs(hits), below(6) > 0);
      const isForeign = limit === SHARED && below(2) === 0;
      const shared = isForeign && {
        key: `shared.${below(COUNTERS)}` as CounterKey,
        shared: { windowStartMs: START_MS, ttlMs: 3_600_000 },
      };
      const claim = claimed({ ...plain, kind, hits: Math.abs(hits) } as Operation, limit);
      const metered = below(2) === 0 ? { metered: below(4) === 0 ? ('all' as const) : (true as const) } : {};
      return {
        ...claim,
        ...shared,
        ...metered,
        kind,
        ...(kind === 'refund' && { chargedAtMs: nowMs - below(5_000) }),
      } as Operation;
    },
  };
}

/** The contents of the counters, and the usage of the batch. */
async function readBack(keys: readonly string[]): Promise<unknown> {
  const calls = connection.pipeline();
  for (const key of keys) calls.getBuffer(key);
  for (const key of keys) calls.hgetallBuffer(key);
  const found = (await calls.exec()) ?? [];
  const logged = await connection.lrangeBuffer('log', 0, -1);
  await connection.del('log', 'usage');
  const usage = new Map<string, number>();
  for (const entry of logged) {
    let from = 8 * (2 + 2 * entry.readDoubleLE(8));
    for (let at = 0; at < entry.readDoubleLE(8); at++) {
      const length = entry.readDoubleLE(24 + 16 * at);
      usage.set(entry.toString('utf8', from, from + length), entry.readDoubleLE(16 + 16 * at));
      from += length;
    }
  }
  const values = found.map(([, value]) =>
    Buffer.isBuffer(value) || value === null
      ? value && (value as Buffer).toString('hex')
      : Object.entries((value ?? {}) as Record<string, Buffer>)
          .filter(([, bytes]) => bytes.some((byte) => byte !== 0)) // whether a node that is as new is kept is chance
          .map(([field, bytes]) => `${field} ${bytes.toString('hex')}`)
          .toSorted(),
  );
  return [values, [...usage].toSorted()];
}

test(`${ROUNDS} rounds of batches are answered, stored and booked as recorded`, async () => {
  const hash = createHash('sha256');
  let operations = 0;
  for (let round = 0; round < ROUNDS; round++) {
    await connection.flushall();
    const { below, operation } = drawer(round);
    let nowMs = START_MS;
    for (let sent = 0; sent < BATCHES; sent++) {
      nowMs += below(3) === 0 ? below(MOST_MS) : below(20);
      const requests = Array.from({ length: 1 + below(12) }, () => {
        const spend = spends[below(5)] ?? 'each';
        const own = Array.from({ length: 1 + below(below(4) === 0 ? 12 : 3) }, () => operation(spend, nowMs));
        operations += own.length;
        return { operations: own, spend };
      });
      const batch = encodeBatch(requests, nowMs, { foreign: referenceCounters, metersUsage: true });
      const keys = [...batch.keys, 'usage', 'log'];
      const reply = (await connection.callBuffer(
        'EVALSHA',
        script.sha1,
        keys.length,
        ...keys,
        batch.packed,
        nowMs,
        '',
        '',
        '1',
      )) as Buffer;
      hash.update(JSON.stringify([decodeBatch(reply, batch), await readBack(batch.keys)]));
    }
  }
  const digest = hash.digest('hex').slice(0, 16);
  if (recorded[ROUNDS] === undefined) console.log(`${operations} operations: ${ROUNDS}: '${digest}'`);
  else expect(digest).toBe(recorded[ROUNDS]);
});
