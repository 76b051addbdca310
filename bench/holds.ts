import type { InFlightLimit } from '../src/algorithms/in-flight.ts';
import { heldLimit } from '../src/algorithms/index.ts';
import { type Backend, operationOf } from '../src/backends/backend.ts';
import { createCounterKeys } from '../src/backends/key.ts';
import { createMemoryBackend } from '../src/backends/memory/backend.ts';
import { RedisBackend } from '../src/backends/redis/backend.ts';
import { openReady } from '../test/helpers/connection.ts';
import { startRedis } from '../test/helpers/redis.ts';
import { showUsage } from './usage.ts';

showUsage(`Usage: npm run holds

Measures what it takes to take and release a slot of a limit on requests in flight, by the number of slots that are held
meanwhile: with ids and without, in memory and in Redis, one operation after the other. Takes about a minute.
`);

const HOLDERS = [0, 10, 100, 999] as const;
const TTL_MS = 3_600_000;
const how = { spend: 'each', timeoutMs: 30_000 } as const;
/** Of each measurement. */
const MEASURED_MS = 2_000;
/** Pairs of operations between two readings of the clock. */
const ROUND = 100;

const limit: InFlightLimit = {
  ...{ algorithm: 'in_flight', counter: 'in_flight', requestsPerUnit: 1_000, soft: 0, windowMs: TTL_MS, holder: 0 },
};
const counterKeys = createCounterKeys('');

measureAll().catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});

async function measureAll(): Promise<void> {
  const server = await startRedis();
  const redis = new RedisBackend(await openReady(server), Date.now);
  console.log('| store | ids | slots held meanwhile | µs to take a slot or release it |\n| --- | --- | --- | --- |');
  for (const [name, open] of [
    ['memory', () => createMemoryBackend(Date.now, { maxCounters: 1_000 })],
    ['Redis', () => redis],
  ] as const)
    for (const hasId of [true, false])
      for (const holders of HOLDERS) {
        const micros = await measure(open(), hasId, holders);
        console.log(`| ${name} | ${hasId ? 'yes' : 'no'} | ${holders} | ${micros.toFixed(1)} |`);
      }
  await redis.close();
  await server.stop();
}

/** @returns microseconds an operation */
async function measure(backend: Backend, hasId: boolean, holders: number): Promise<number> {
  const key = counterKeys(limit, `${hasId}-${holders}`, []);
  const run = async (holder: number, hits: number): Promise<void> => {
    const [reply] = await backend.run([operationOf({ key }, heldLimit(limit, hasId ? holder : 0), hits, true)], how);
    if (reply?.code !== 'OK') throw new Error(`expected a slot, got ${JSON.stringify(reply)}`);
  };
  for (let holder = 1; holder <= holders; holder++) await run(holder, 1);
  const startMs = performance.now();
  let operations = 0;
  while (performance.now() - startMs < MEASURED_MS) {
    for (let round = 0; round < ROUND; round++) {
      await run(holders + 1, 1);
      await run(holders + 1, -1);
    }
    operations += 2 * ROUND;
  }
  return ((performance.now() - startMs) * 1_000) / operations;
}
