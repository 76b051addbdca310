import '../../helpers/realm.ts';
import { readFileSync } from 'node:fs';
import type { Redis as Connection } from 'ioredis';
import type { Backend, Operation } from '../../../src/engine/backends/backend.ts';
import { type Counter, type CounterKey, createCounterKeys } from '../../../src/engine/backends/key.ts';
import { sharedCounters } from '../../../src/engine/backends/shared-counters.ts';
import { algorithmFor, type Limit } from '../../../src/engine/holds/limits.ts';
import { MemcachedBackend } from '../../../src/parts/memcached/backend.ts';
import { createMemcachedClient } from '../../../src/parts/memcached/client.ts';
import { openServers } from '../../../src/parts/memcached/servers.ts';
import { findWindow } from '../../../src/parts/memcached/windows.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import {
  allocationOf,
  calendarWindowOf,
  fixedWindowOf,
  inFlightOf,
  limitsOfEach,
  reservationOf,
  slidingWindowLogOf,
} from '../../helpers/limits.ts';
import { type Memcached, startMemcached } from '../../helpers/memcached.ts';
import { heldBy, operationOf } from '../../helpers/operations.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { eventually } from '../../helpers/until.ts';

/**
 * The bytes that a store holds under a key after each of the operations below, in hex. Records are added but never
 * changed: instances of several builds share a store, so a new format of states needs a new format of keys.
 */
const records: Readonly<Record<string, readonly string[]>> = JSON.parse(
  readFileSync(new URL('../../fixtures/counter-formats.json', import.meta.url), 'utf8'),
);

const START_MS = 1_700_000_000_000;
const HOUR_MS = 3_600_000;
const monotonicMs = () => performance.now();
const clock = fakeClock();
const each = { spend: 'each', timeoutMs: 10_000 } as const;

let redis: Redis;
let memcached: Memcached;
let connection: Connection;
beforeAll(async () => {
  [redis, memcached] = await Promise.all([startRedis(), startMemcached()]);
  connection = await openReady(redis);
});
beforeEach(() => clock.set(START_MS));
afterAll(async () => {
  connection.disconnect();
  await Promise.all([redis.stop(), memcached.stop()]);
});

/** A store, and the bytes that it holds under a key. */
interface Opened {
  readonly backend: Backend;
  bytes(key: string): Promise<Buffer | undefined>;
  close(): Promise<void>;
}

async function onRedis(): Promise<Opened> {
  const backend = new RedisBackend(await openReady(redis), clock, {
    replay: true,
    monotonicMs,
  });
  return {
    backend,
    bytes: async (key) => (await connection.getBuffer(key)) ?? undefined,
    close: () => backend.close(),
  };
}

async function onMemcached(): Promise<Opened> {
  const [tls, onDown, onUp] = [undefined, () => {}, () => {}] as const;
  const servers = openServers({ servers: [memcached.address], tls, monotonicMs, onDown, onUp });
  const settings = { host: '127.0.0.1', port: memcached.port, tls, monotonicMs, onReady: onUp, onError: onDown };
  const client = createMemcachedClient(settings);
  const backend = new MemcachedBackend(servers, { clock, monotonicMs, dateClock: Date.now });
  await eventually(() => backend.health().ready && client.health().ready);
  return {
    backend,
    bytes: async (key) => (await client.get(key))?.value,
    async close() {
      client.close();
      await backend.close();
    },
  };
}

const entries = [{ key: 'user', value: 'alice' }];
const counterOf = (limit: Limit): Counter => ({ key: createCounterKeys('')(limit, 'demo', entries) });

/** The request that takes the hits, if they have holders. */
const HOLDER = 7;

/** Spends in two parts of a window, refunds, spends in the next window, and charges hits that have already passed. */
async function history(
  { backend, bytes }: Opened,
  limit: Limit,
  counter = counterOf(limit),
): Promise<readonly string[]> {
  const states: string[] = [];
  const run = async (operation: Operation): Promise<void> => {
    await backend.run([heldBy(operation, HOLDER)], each);
    states.push((await bytes(counter.key))?.toString('hex') ?? '');
  };
  await run(operationOf(counter, limit, 3, true));
  clock.advance(400_000);
  await run(operationOf(counter, limit, 4, true));
  await run(operationOf(counter, limit, -2, true));
  clock.advance(3_000_000); // into the next hour
  await run(operationOf(counter, limit, 5, true));
  await run({ ...operationOf(counter, limit, 8, true), kind: 'charge' });
  return states;
}

const limits = [
  ...limitsOfEach(20, HOUR_MS).filter((limit) => !('countDenied' in limit && limit.countDenied)),
  calendarWindowOf(20, 'DAY', 'Europe/Berlin'),
  inFlightOf(20, HOUR_MS),
  allocationOf(20),
  reservationOf(fixedWindowOf(20, HOUR_MS), { ttlMs: HOUR_MS }),
].filter(({ counter }, at, all) => all.findIndex((other) => other.counter === counter) === at);

test.each(limits)('the state of a $counter counter in Redis has the format recorded for its key', async (limit) => {
  const opened = await onRedis();
  expect(records).toMatchObject({ [counterOf(limit).key]: await history(opened, limit) });
  await opened.close();
});

/** Whether memcached has a count for each window. */
const isCounted = (limit: Limit): boolean =>
  findWindow({ ...counterOf(limit), limit }, { nowMs: START_MS, dateMs: START_MS }) !== undefined;

test('the count of a window in memcached is decimal, under a key that names the start of the window', async () => {
  for (const limit of limits.filter(isCounted)) {
    const { backend, bytes, close } = await onMemcached();
    const operation = operationOf(counterOf(limit), limit, 3, true);
    await backend.run([operation], each);
    await backend.run([operation], each);
    const startMs = algorithmFor(limit).step(limit, undefined, clock(), 1, true).state[0];
    expect(String(await bytes(`${operation.key}|${startMs}`))).toBe('6');
    await close();
  }
});

test.each(limits.filter((limit) => !algorithmFor(limit).state.keepsEntries && !isCounted(limit)))(
  'the state of a $counter counter in memcached has the format recorded for its key',
  async (limit) => {
    const opened = await onMemcached();
    expect(records).toMatchObject({ [counterOf(limit).key]: await history(opened, limit) });
    await opened.close();
  },
);

test('the state of a counter shared with envoyproxy/ratelimit has the format recorded for its key', async () => {
  const limit = fixedWindowOf(20, HOUR_MS);
  const own = createCounterKeys('');
  const options = { prefix: '', own, jitterMaxSeconds: 0, clock, random: () => 0 };
  const counter = sharedCounters(options)(limit, 'demo', entries);
  const opened = await onRedis();
  expect(records).toMatchObject({ [counter.key]: await history(opened, limit, counter) });
  await opened.close();
});

test('resets and settlements in Redis have the recorded format', async () => {
  const { backend, bytes, close } = await onRedis();
  const limit = slidingWindowLogOf(20, HOUR_MS);
  const counter: Counter = { key: 'counter' as CounterKey }; // any key will do
  const operation = { ...operationOf(counter, limit, 1, true), kind: 'forget' } as const;
  await backend.run([operation], each);
  await backend.settle({ instance: 'one', number: 7, operations: [{ ...operation, kind: 'charge' }] }, each.timeoutMs);
  const keys = ['reset|counter', 'settled|one'];
  const kept = await Promise.all(keys.map(async (key) => [key, [(await bytes(key))?.toString('hex')]] as const));
  expect(records).toMatchObject(Object.fromEntries(kept));
  await close();
});
