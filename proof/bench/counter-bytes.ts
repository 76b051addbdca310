import { parseArgs } from 'node:util';
import type { Redis as Connection } from 'ioredis';
import { unitMs } from '../../src/engine/algorithms/limit.ts';
import type { Backend } from '../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import type { Limit } from '../../src/engine/holds/limits.ts';
import { RedisBackend } from '../../src/parts/redis/backend.ts';
import { openReady } from '../../test/helpers/connection.ts';
import { heapBytes } from '../../test/helpers/heap.ts';
import { operationOf } from '../../test/helpers/operations.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { tableHead, tableRow } from '../tables/table.ts';

const COUNTERS = 1_000_000;
/** The number of hits in one call of a store. */
const CALL_HITS = 1_000;
const START_MS = 1_699_999_200_000; // the start of an hour
const STORE_TIMEOUT_MS = 10_000;

/** A measurement: a limit, and the number of hits on each of its counters, evenly over a window. */
interface Case {
  readonly name: string;
  readonly limit: Limit;
  readonly hits: number;
  /** Fewer than `COUNTERS` if those would take minutes. */
  readonly counters?: number;
}

/** Copies the first key to all others. */
const COPY = "for i = 2, #KEYS do redis.call('COPY', KEYS[1], KEYS[i]) end";

/** The commands of envoyproxy/ratelimit for a hit. */
const REFERENCE_HIT =
  "for _, key in ipairs(KEYS) do redis.call('INCRBY', key, 1) redis.call('EXPIRE', key, ARGV[1]) end";

const counterKeys = createCounterKeys('');

const anHour = {
  name: '',
  counter: '',
  requestsPerUnit: 100,
  soft: 0,
  unit: 'HOUR',
  unitMultiplier: 1,
  windowMs: unitMs.HOUR,
} as const;
const log: Limit = { ...anHour, algorithm: 'sliding_window_log', countDenied: false };
const cases: readonly Case[] = [
  { name: '`fixed_window`', limit: { ...anHour, algorithm: 'fixed_window', alignment: 'epoch' }, hits: 3 },
  { name: '`sliding_window_log`, 10 hits in it', limit: log, hits: 10, counters: COUNTERS / 10 },
  { name: '`sliding_window_log`, 100 hits in it', limit: log, hits: 100, counters: COUNTERS / 50 },
  {
    name: '`sliding_window_counter`',
    limit: { ...anHour, algorithm: 'sliding_window_counter', rounding: 'down' },
    hits: 3,
  },
  {
    name: '`sliding_window_buckets`, 12 parts, all hit',
    limit: { ...anHour, algorithm: 'sliding_window_buckets', buckets: 12 },
    hits: 12,
    counters: COUNTERS / 10,
  },
  {
    name: '`token_bucket`',
    limit: { ...anHour, algorithm: 'token_bucket', burst: 100, refill: 'continuous', maxDelayMs: 0 },
    hits: 3,
  },
  { name: '`leaky_bucket`', limit: { ...anHour, algorithm: 'leaky_bucket', burst: 100, maxDelayMs: 0 }, hits: 3 },
];

export const usage = `Usage: npm run proof -- counter-bytes

Measures the bytes of a counter, in memory and in Redis, by algorithm. Takes a few minutes and some gigabytes of memory;
each row is printed when it is done.
`;

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  const redis = await startRedis();
  const connection = await openReady(redis);
  try {
    for (const one of cases) await inMemory(one, COUNTERS / 100); // warm-up, so that compiled code does not count below
    const reference = await inRedisByReference(connection);
    console.log(
      tableHead([
        'algorithm',
        'counters',
        'in memory',
        'in Redis',
        'of that, `MEMORY USAGE`',
        'to envoyproxy/ratelimit',
      ]),
    );
    for (const one of cases) {
      const { name, counters = COUNTERS } = one;
      const memory = await inMemory(one, counters);
      const { used, usage } = await inRedis(one, counters, connection);
      const ratio = (used / reference.used).toFixed(2);
      console.log(tableRow([name, counters, memory, used, usage, ratio]));
    }
    console.log(tableRow(["envoyproxy/ratelimit's fixed window", COUNTERS, '', reference.used, reference.usage, 1]));
  } finally {
    connection.disconnect();
    await redis.stop();
  }
}

/** Bytes of heap per counter. */
async function inMemory({ limit, hits }: Case, counters: number): Promise<number> {
  let nowMs = START_MS;
  const store = createMemoryBackend(() => nowMs, { maxCounters: counters });
  const before = heapBytes();
  for (let round = 0; round < hits; round++) {
    nowMs = START_MS + Math.floor((limit.windowMs * round) / hits);
    for (let first = 0; first < counters; first += CALL_HITS) await hitOnce(store, limit, first);
  }
  const bytes = (heapBytes() - before) / counters;
  await store.close();
  return Math.round(bytes);
}

interface RedisBytes {
  /** The server's memory divided by the number of counters. */
  readonly used: number;
  /** Redis' MEMORY USAGE of one key. */
  readonly usage: number;
}

/**
 * The service's own script hits the first counters. Redis copies them to the others, since a hundred hits on each would
 * take minutes.
 */
async function inRedis({ limit, hits }: Case, counters: number, connection: Connection): Promise<RedisBytes> {
  let nowMs = START_MS;
  const store = new RedisBackend(connection, () => nowMs, { replay: true });
  await connection.flushall();
  await hitOnce(store, limit, 0); // loads the script into Redis
  await connection.flushall();
  const before = await usedMemory(connection);
  for (let round = 0; round < hits; round++) {
    nowMs = START_MS + Math.floor((limit.windowMs * round) / hits);
    await hitOnce(store, limit, 0);
  }
  const hit = callKeys(limit, 0).at(CALL_HITS / 2) ?? '';
  for (let first = CALL_HITS; first < counters; first += CALL_HITS) {
    await connection.eval(COPY, 1 + CALL_HITS, hit, ...callKeys(limit, first));
  }
  return bytesSince(before, counters, hit, connection);
}

/** The same users with keys of envoyproxy/ratelimit, `api_user_0000000000042_1699999200`, and three hits on each. */
async function inRedisByReference(connection: Connection): Promise<RedisBytes> {
  await connection.flushall();
  await connection.eval(REFERENCE_HIT, 1, 'key', 1); // loads the script into Redis
  await connection.flushall();
  const before = await usedMemory(connection);
  const referenceKey = (user: string) => `api_user_${user}_${START_MS / 1_000}`;
  for (let first = 0; first < COUNTERS; first += CALL_HITS) {
    const keys = usersFrom(first).map(referenceKey);
    for (let hit = 0; hit < 3; hit++) await connection.eval(REFERENCE_HIT, keys.length, ...keys, unitMs.HOUR / 1_000);
  }
  return bytesSince(before, COUNTERS, referenceKey(usersFrom(0).at(0) ?? ''), connection);
}

async function bytesSince(before: number, counters: number, key: string, connection: Connection): Promise<RedisBytes> {
  const kept = await connection.dbsize();
  if (kept !== counters) throw new Error(`expected ${counters} counters in Redis, got ${kept}`);
  const used = ((await usedMemory(connection)) - before) / counters;
  return { used: Math.round(used), usage: Number(await connection.memory('USAGE', key)) };
}

async function usedMemory(connection: Connection): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await connection.info('memory'))?.[1]);
}

/** One hit on each of the counters from `first` on, in one call. */
async function hitOnce(store: Backend, limit: Limit, first: number): Promise<void> {
  const hits = callKeys(limit, first).map((key) => operationOf({ key }, limit, 1, true));
  const decisions = await store.run(hits, { spend: 'each', timeoutMs: STORE_TIMEOUT_MS });
  const wrong = decisions.find(({ code }) => code !== 'OK');
  if (wrong) throw new Error(`expected every hit to pass, got ${JSON.stringify(wrong)}`);
}

/** The keys of the counters of one call, 30 bytes each: `|3:api|4:user|13:0000000000042`. */
const callKeys = (limit: Limit, first: number) =>
  usersFrom(first).map((user) => counterKeys(limit, 'api', [{ key: 'user', value: user }]));

const usersFrom = (first: number) => Array.from({ length: CALL_HITS }, (_, at) => String(first + at).padStart(13, '0'));
