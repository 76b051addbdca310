import type { Redis as Client } from 'ioredis';
import type { Spend } from '../../../src/engine/algorithms/limit.ts';
import type { Operation } from '../../../src/engine/backends/backend.ts';
import { type CounterKey, createCounterKeys } from '../../../src/engine/backends/key.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import {
  fixedWindowOf,
  inFlightOf,
  reservationOf,
  slidingWindowBucketsOf,
  slidingWindowLogOf,
} from '../../helpers/limits.ts';
import { heldBy, operationOf } from '../../helpers/operations.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { clientOf } from '../../helpers/redis-topologies.ts';

const WINDOW_MS = 3_600_000;
/** As many as a request may have. */
const DESCRIPTORS = 250;
/** How much more processor time than the same number of spends on plain counters a script may take. */
const MAX_FACTOR = 25;

/** The shortest time of several runs counts, since others use this machine, too. */
const MAX_RUNS = 3;

const clock = fakeClock(1_700_000_000_000);
const keyOf = createCounterKeys('');
let server: Redis;
let client: Client;
let redis: RedisBackend;
beforeAll(async () => {
  server = await startRedis();
  client = clientOf(server);
  redis = new RedisBackend(await openReady(server), clock, { replay: true, slowMs: 60_000 });
});
afterAll(async () => {
  client.disconnect();
  await redis.close();
  await server.stop();
});

const spendOn = (key: CounterKey, limit: Limit, hits = 1): Operation => operationOf({ key }, limit, hits, true);
const spendBy = (holder: number, key: CounterKey, limit: Limit): Operation => heldBy(spendOn(key, limit), holder);
const indexes = Array.from({ length: DESCRIPTORS }, (_, at) => at);

/** The processor time of the thread in which Redis runs scripts: unlike their duration, it excludes waits for a core. */
async function processorUs(): Promise<number> {
  const lines = await client.info('cpu');
  const seconds = Array.from(lines.matchAll(/^used_cpu_(?:user|sys)_main_thread:([\d.]+)/gm), ([, s]) => Number(s));
  return Math.round(seconds.reduce((sum, s) => sum + s, 0) * 1e6);
}

async function timeOf(operations: () => readonly Operation[], spend: Spend): Promise<number> {
  let leastUs = Number.POSITIVE_INFINITY;
  for (let run = 0; run < MAX_RUNS; run++) {
    clock.advance(1);
    const before = await processorUs();
    await redis.run(operations(), { spend, timeoutMs: 60_000 });
    leastUs = Math.min(leastUs, (await processorUs()) - before);
  }
  return leastUs;
}

/** Spends until the counter has the longest state that its limit allows. */
async function fill(key: CounterKey, limit: Limit, spends: number, everyMs: number): Promise<void> {
  for (let at = 1; at <= spends; at++) {
    clock.advance(everyMs);
    await redis.run([spendBy(at, key, limit)], { spend: 'each', timeoutMs: 60_000 });
  }
}

const log = slidingWindowLogOf(1_000, WINDOW_MS);
const denied = slidingWindowLogOf(1_000, WINDOW_MS, { countDenied: true });
const slots = inFlightOf(1_000, WINDOW_MS);
const parts = slidingWindowBucketsOf(1_000, WINDOW_MS, { buckets: 100 });
const reserved = reservationOf(fixedWindowOf(1_000, WINDOW_MS), { ttlMs: WINDOW_MS });
const reservedOfLog = reservationOf(log, { ttlMs: WINDOW_MS });

test.each([
  { name: 'sliding_window_log', limit: log, spends: 1_000, everyMs: 1 },
  { name: 'sliding_window_log with count_denied', limit: denied, spends: 1_000, everyMs: 1 },
  { name: 'sliding_window_buckets', limit: parts, spends: 100, everyMs: WINDOW_MS / 100 },
  { name: 'in_flight', limit: slots, spends: 1_000, everyMs: 1 },
  { name: 'reserve', limit: reserved, spends: 1_000, everyMs: 1 },
  { name: 'reserve beside a log', limit: reservedOfLog, spends: 1_000, everyMs: 1 },
])(
  'a request with 250 spends on one full counter of $name costs Redis little',
  async ({ name, limit, spends, everyMs }) => {
    const full = keyOf(limit, name, []);
    await fill(full, limit, spends, everyMs);
    const plain = fixedWindowOf(1, WINDOW_MS);
    for (const spend of ['each', 'all_or_nothing'] as const) {
      const key = keyOf(limit, `${name} ${spend}`, []);
      await client.copy(full, key);
      const plainUs = await timeOf(() => indexes.map((at) => spendOn(keyOf(plain, `${at}`, []), plain)), spend);
      const figures: Record<string, number> = {
        same: await timeOf(() => indexes.map(() => spendOn(key, limit)), spend),
        hits: await timeOf(() => indexes.map((at) => spendOn(key, limit, 1 + (at % 9))), spend),
        large: await timeOf(() => indexes.map((at) => spendOn(key, limit, 750 + at)), spend),
        newIds: await timeOf(() => indexes.map((at) => spendBy(5_000 + at, key, limit)), spend),
        heldIds: await timeOf(() => indexes.map((at) => spendBy(1 + at, key, limit)), spend),
      };
      const costly = Object.entries(figures).filter(([, us]) => us > MAX_FACTOR * plainUs);
      expect(plainUs).toBeGreaterThan(0);
      expect({ spend, plainUs, costly }).toEqual({ spend, plainUs, costly: [] });
    }
  },
);
