import { randomUUID } from 'node:crypto';
import type { Backend, Replies } from '../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import { RedisBackend } from '../../src/engine/backends/redis/backend.ts';
import { openReady } from './connection.ts';
import { type Redis, startRedis } from './redis.ts';

/** Long, since the machine may be busy. */
export const STORE_TIMEOUT_MS = 60_000;

let server: Redis;
let connections: readonly RedisBackend[];

/** Starts Redis for the tests of a file, with four backends on it. */
export function withRedis(): void {
  beforeAll(async () => {
    server = await startRedis();
    const opened = await Promise.all(Array.from({ length: 4 }, () => openReady(server)));
    connections = opened.map((connection) => new RedisBackend(connection, Date.now, { slowMs: STORE_TIMEOUT_MS }));
  });
  afterAll(async () => {
    await Promise.all(connections.map((one) => one.close()));
    await server.stop();
  });
}

/** Backends that share counters, like instances of the service. */
export const sharedStores: Readonly<Record<string, () => readonly [Backend, ...Backend[]]>> = {
  memory: () => [createMemoryBackend(Date.now, { maxCounters: 1_000 })],
  Redis: () => connections as readonly RedisBackend[] as readonly [RedisBackend, ...RedisBackend[]], // there are four
};

export const newKey = () => `${randomUUID()}` as CounterKey;

export const codesOf = (replies: Replies): readonly string[] => replies.map(({ code }) => code);
