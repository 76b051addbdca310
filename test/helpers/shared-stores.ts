import { randomUUID } from 'node:crypto';
import type { Redis as Connection } from 'ioredis';
import type { Clock } from '../../src/base/clock.ts';
import type { Backend, Replies } from '../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import { RedisBackend } from '../../src/parts/redis/backend.ts';
import { openReady } from './connection.ts';
import { type Redis, startRedis } from './redis.ts';

/** Long, since the machine may be busy. */
export const STORE_TIMEOUT_MS = 60_000;

let server: Redis;
let connections: readonly RedisBackend[];

/** A backend on a test's clock, and its connection. */
interface OnClock {
  redis: RedisBackend;
  connection: Connection;
}

/** Starts Redis for the tests of a file, with four backends on it, and one on the given clock. */
export function withRedis(clock: Clock = Date.now): OnClock {
  const onClock = {} as OnClock;
  beforeAll(async () => {
    server = await startRedis();
    const opened = await Promise.all(Array.from({ length: 4 }, () => openReady(server)));
    connections = opened.map((connection) => new RedisBackend(connection, Date.now, { slowMs: STORE_TIMEOUT_MS }));
    onClock.connection = await openReady(server);
    onClock.redis = new RedisBackend(onClock.connection, clock, { replay: true, slowMs: STORE_TIMEOUT_MS });
  });
  afterAll(async () => {
    await Promise.all([...connections, onClock.redis].map((one) => one.close()));
    await server.stop();
  });
  return onClock;
}

/** Backends that share counters, like instances of the service. */
export const sharedStores: Readonly<Record<string, () => readonly [Backend, ...Backend[]]>> = {
  memory: () => [createMemoryBackend(Date.now, { maxCounters: 1_000 })],
  Redis: () => connections as readonly RedisBackend[] as readonly [RedisBackend, ...RedisBackend[]], // there are four
};

export const newKey = () => `${randomUUID()}` as CounterKey;

export const codesOf = (replies: Replies): readonly string[] => replies.map(({ code }) => code);
