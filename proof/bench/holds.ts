import { parseArgs } from 'node:util';
import type { Backend, Operation } from '../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import type { InFlightLimit } from '../../src/engine/holds/in-flight.ts';
import { RedisBackend } from '../../src/parts/redis/backend.ts';
import type { ReservationLimit } from '../../src/parts/reservations/reservation.ts';
import { openReady } from '../../test/helpers/connection.ts';
import { heldBy, operationOf } from '../../test/helpers/operations.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { tableHead, tableRow } from '../tables/table.ts';

export const usage = `Usage: npm run proof -- holds

Measures the time to take and release a slot of a limit on requests in flight, by the number of slots held meanwhile, with
and without ids; and the time to reserve hits and commit them, by the number of requests that the counter knows. In memory
and in Redis, one operation after the other. Takes about a minute.
`;

const HOLDERS = [0, 10, 100, 999] as const;
const TTL_MS = 3_600_000;
const how = { spend: 'each', timeoutMs: 30_000 } as const;
/** The length of each measurement. */
const MEASURED_MS = 2_000;
/** Pairs of operations between two readings of the clock. */
const ROUND = 100;

const limit: InFlightLimit = {
  algorithm: 'in_flight',
  counter: 'in_flight',
  requestsPerUnit: 1_000,
  soft: 0,
  windowMs: TTL_MS,
};
/** Its bucket is never empty. */
const reserving: ReservationLimit = {
  algorithm: 'reservation',
  counter: 'reservation',
  requestsPerUnit: 1e9,
  soft: 0,
  windowMs: 1_000,
  inner: {
    algorithm: 'token_bucket',
    counter: 'inner',
    requestsPerUnit: 1e9,
    soft: 0,
    windowMs: 1_000,
    burst: 1e9,
    refill: 'continuous',
    maxDelayMs: 0,
  },
  ttlMs: TTL_MS,
  onOverrun: 'debt',
  onLapse: 'free',
};
const counterKeys = createCounterKeys('');

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  const server = await startRedis();
  const redis = new RedisBackend(await openReady(server), Date.now);
  console.log(tableHead(['store', 'what', 'holders meanwhile', 'µs an operation'], 2));
  for (const [name, open] of [
    ['memory', () => createMemoryBackend(Date.now, { maxCounters: 1_000 })],
    ['Redis', () => redis],
  ] as const)
    for (const [what, pairOf] of Object.entries(pairs))
      for (const holders of HOLDERS) {
        const micros = await measure(open(), pairOf(`${what} ${holders}`), holders);
        console.log(tableRow([name, what, holders, micros.toFixed(1)]));
      }
  await redis.close();
  await server.stop();
}

/** A holder's operations at its beginning and at its end. */
type PairOf = (counter: string) => (holder: number) => readonly [Operation, Operation];

const createSlots =
  (hasId: boolean): PairOf =>
  (counter) => {
    const key = counterKeys(limit, counter, []);
    return (holder) => {
      const by = (hits: number) => heldBy(operationOf({ key }, limit, hits, true), hasId ? holder : 0);
      return [by(1), by(-1)];
    };
  };

const createReservations: PairOf = (counter) => {
  const key = counterKeys(reserving, counter, []);
  return (holder) => [
    heldBy(operationOf({ key }, reserving, 1_000, true), holder),
    { ...heldBy(operationOf({ key }, reserving, 500, true), holder), commits: true },
  ];
};

/** @returns microseconds per operation */
async function measure(backend: Backend, pairOf: ReturnType<PairOf>, holders: number): Promise<number> {
  const take = async (operation: Operation): Promise<void> => {
    const [reply] = await backend.run([operation], how);
    if (reply?.code !== 'OK') throw new Error(`expected OK, got ${JSON.stringify(reply)}`);
  };
  for (let holder = 1; holder <= holders; holder++) await take(pairOf(holder)[0]);
  const [begin, end] = pairOf(holders + 1);
  const startMs = performance.now();
  let operations = 0;
  while (performance.now() - startMs < MEASURED_MS) {
    for (let round = 0; round < ROUND; round++) {
      await take(begin);
      await take(end);
    }
    operations += 2 * ROUND;
  }
  return ((performance.now() - startMs) * 1_000) / operations;
}

const pairs: Readonly<Record<string, PairOf>> = {
  'slots with ids': createSlots(true),
  'slots without': createSlots(false),
  reservations: createReservations,
};
