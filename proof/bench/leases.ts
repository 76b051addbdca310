import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Redis as Connection } from 'ioredis';
import { type LimitPolicy, unitMs } from '../../src/engine/algorithms/limit.ts';
import { LONGEST_LEASE_MS } from '../../src/engine/algorithms/token-bucket.ts';
import { createCounterKeys } from '../../src/engine/backends/key.ts';
import type { Limit as LimitNumbers } from '../../src/engine/holds/limits.ts';
import { createDebit } from '../../src/engine/ledger/debit.ts';
import { Ledger } from '../../src/engine/ledger/ledger.ts';
import { leasesWithin } from '../../src/parts/leases/leases.ts';
import { RedisBackend } from '../../src/parts/redis/backend.ts';
import { openReady } from '../../test/helpers/connection.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { percent } from '../tables/figures.ts';
import { tableHead, tableRow } from '../tables/table.ts';

type Policed = LimitNumbers & LimitPolicy;

const HEADING = `What leases save on one hot key. The instances are stores in this one process, each with its leases and its own
connection to one Redis; callers do not wait for each other, so that a strict instance, too, puts together what is asked
at a time. Below the limit: half of it is asked for; above it, one and a half times. A bucket may pass its burst and what is refilled meanwhile.
`;

const PER_SECOND = 8_000;
const BURST = 1_000;
const BELOW = 0.5;
const ABOVE = 1.5;
/** No hits are sent this close to a window's edges, so that each counts in the window in which it was sent. */
const EDGE_MS = 30;
const STORE_TIMEOUT_MS = 1_000;

const aSecond = {
  name: '',
  requestsPerUnit: PER_SECOND,
  soft: 0,
  unit: 'SECOND',
  unitMultiplier: 1,
  windowMs: unitMs.SECOND,
} as const;
const limits: readonly Policed[] = [
  { ...aSecond, algorithm: 'fixed_window', counter: 'fixed_window.2|1000', alignment: 'epoch' },
  {
    ...aSecond,
    algorithm: 'token_bucket',
    counter: 'token_bucket|1000',
    burst: BURST,
    refill: 'continuous',
    maxDelayMs: 0,
  },
];

const counterKeys = createCounterKeys('');

export const usage = `Usage: npm run proof -- leases

Measures what leases save: calls to Redis, and how much of a limit they leave unused.
Starts a Redis of its own. Takes a few minutes; each row is printed when it is done.
`;

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  console.log(HEADING);
  const redis = await startRedis();
  const observer = await openReady(redis);
  try {
    const shares = ['Redis calls per decision', 'leased and unused', 'admitted, of what may pass'];
    console.log(tableHead(['instances', 'algorithm', 'consistency', 'decisions', ...shares], 3));
    for (const instances of [1, 2, 8])
      for (const limit of limits)
        for (const measured of [limit, { ...limit, consistency: 'leased' } as const]) {
          const connections = await Promise.all(Array.from({ length: instances }, () => openReady(redis)));
          await measure(measured, connections, observer);
        }
  } finally {
    observer.disconnect();
    await redis.stop();
  }
}

/** Prints a row: calls from a window below the limit, and admitted hits from one above it. */
async function measure(limit: Policed, connections: readonly Connection[], observer: Connection): Promise<void> {
  await observer.flushall();
  const stores = connections.map(
    (connection) =>
      new Ledger({ main: new RedisBackend(connection, Date.now) }, { ...options, instance: randomUUID() }),
  );
  await sleep(SUBSCRIBE_MS);
  await untilWindow();
  await observer.config('RESETSTAT');
  const below = await load(stores, limit, BELOW);
  const calls = await scriptCalls(observer);
  const unused = stores.reduce((sum, { leases }) => sum + (leases?.leased ?? 0), 0);
  await untilWindow();
  const above = await load(stores, limit, ABOVE);
  await Promise.all(stores.map((store) => store.close()));

  const isBucket = limit.algorithm === 'token_bucket';
  const mayPass = isBucket ? BURST + (PER_SECOND * above.lastedMs) / unitMs.SECOND : PER_SECOND;
  const admitted = percent(above.admitted / mayPass);
  const { algorithm, consistency = 'strict' } = limit;
  const counted = [below.decisions, (calls / below.decisions).toFixed(4), unused, admitted];
  console.log(tableRow([stores.length, `\`${algorithm}\``, consistency, ...counted]));
  // a bucket also admits tokens that leases held at the start
  const bound = mayPass + (isBucket && consistency === 'leased' ? (PER_SECOND * LONGEST_LEASE_MS) / unitMs.SECOND : 0);
  if (above.admitted > bound) throw new Error(`expected at most ${bound} admitted, got ${above.admitted}`);
}

/** Leases wait until changes of other instances arrive. */
const SUBSCRIBE_MS = 500;
const options = {
  clock: Date.now,
  monotonicMs: () => performance.now(),
  denyCacheBytes: 0,
  leases: leasesWithin({ maxLeases: 1 }),
  every(intervalMs: number, run: () => void) {
    const timer = setInterval(run, intervalMs);
    return () => clearInterval(timer);
  },
};

interface Load {
  readonly decisions: number;
  readonly admitted: number;
  /** Time from the first hit to the last answer. */
  readonly lastedMs: number;
}

/**
 * Sends hits to the stores in turn at a steady rate, `ofLimit` times the limit, until shortly before the window ends.
 */
async function load(stores: readonly Ledger[], limit: Policed, ofLimit: number): Promise<Load> {
  const hits = [createDebit({ key: counterKeys(limit, 'api', []) }, { limit, policy: limit }, 1, true)];
  const startMs = performance.now();
  const endMs = startMs + untilWindowEndsMs() - EDGE_MS;
  const asked: ReturnType<Ledger['debit']>[] = [];
  for (let nowMs = startMs; nowMs < endMs; nowMs = performance.now()) {
    const due = ((nowMs - startMs) / unitMs.SECOND) * PER_SECOND * ofLimit;
    while (asked.length < due)
      for (const store of stores) asked.push(store.debit(hits, { spend: 'each', timeoutMs: STORE_TIMEOUT_MS }));
    await sleep(1);
  }
  const answers = (await Promise.all(asked)).flat();
  const failed = answers.find(({ code }) => code === 'UNAVAILABLE');
  if (failed) throw new Error(`expected every hit decided, got ${JSON.stringify(failed)}`);
  const admitted = answers.filter(({ code }) => code === 'OK').length;
  return { decisions: answers.length, admitted, lastedMs: performance.now() - startMs };
}

const untilWindowEndsMs = (): number => unitMs.SECOND - (Date.now() % unitMs.SECOND);

/** Waits until a window has begun. */
const untilWindow = (): Promise<void> => sleep(untilWindowEndsMs() + EDGE_MS);

/** The number of calls of our script since the statistics were reset. */
async function scriptCalls(observer: Connection): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await observer.info('commandstats'))?.[1]);
}
