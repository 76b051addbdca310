import '../../helpers/realm.ts';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Redis as Connection } from 'ioredis';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import { createDebit, type Debit } from '../../../src/engine/ledger/debit.ts';
import type { Ledger } from '../../../src/engine/ledger/ledger.ts';
import { leasesWithin } from '../../../src/parts/leases/leases.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { fixedWindowOf, type PolicedLimit as Limit, tokenBucketOf } from '../../helpers/limits.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { eventually } from '../../helpers/until.ts';

const MINUTE_MS = 60_000;
const START_MS = 1_700_000_040_000; // the start of a minute
const each = { spend: 'each', timeoutMs: 60_000 } as const;

const clock = fakeClock(START_MS);
const counterKeys = createCounterKeys('');

let folder: string;
let server: Redis;
let observer: Connection;
let stores: Ledger[];

function every(intervalMs: number, run: () => void): () => void {
  const timer = setInterval(run, Math.min(intervalMs, 20));
  return () => clearInterval(timer);
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leases-'));
  server = await startRedis({ folder });
  observer = await openReady(server);
});
beforeEach(async () => {
  clock.set(START_MS);
  stores = [];
  await observer.flushall();
});
afterEach(async () => {
  for (const store of stores) await store.close();
});
afterAll(async () => {
  observer.disconnect();
  await server.stop();
});

/** A process's store on its own connection; Redis uses the test's clock. */
const countIn = async (): Promise<Backend> =>
  new RedisBackend(await openReady(server), clock, { replay: true, slowMs: 60_000 });

async function instances(count: number): Promise<void> {
  for (let at = 0; at < count; at++) {
    const backend = await countIn();
    const changes = { clock, monotonicMs: clock, leases: leasesWithin({ maxLeases: 100, idleMs: MINUTE_MS }), every };
    stores.push(ledgerOf(backend, changes));
    const own = backend.invalidations?.({ changed: () => {}, forgotten: () => {}, missed: () => {} });
    await eventually(() => own?.isLive() ?? false);
  }
}

const leased = (limit: Limit): Limit => ({ ...limit, consistency: 'leased' });
const hitOn = (limit: Limit, hits = 1): Debit =>
  createDebit({ key: counterKeys(limit, 'api', []) }, { limit, policy: limit }, hits, true);

async function ask(at: number, hit: Debit) {
  const [answer] = (await stores[at % stores.length]?.debit([hit], each)) ?? [];
  return answer;
}

/**
 * Sends requests to the stores in turn, all those of a step at once. @returns the number of admitted hits
 *
 * Redis expires counters by its own clock, however slow the test's is: the rest of a window, or the time until a bucket
 * is full, must be much longer than the steps take.
 */
async function drive(limit: Limit, perStep: number, steps: number, stepMs = 1): Promise<number> {
  let passed = 0;
  for (let step = 0; step < steps; step++) {
    const asked = Array.from({ length: perStep }, (_, at) => ask(step * perStep + at, hitOn(limit)));
    for (const answer of await Promise.all(asked)) if (answer?.code === 'OK') passed++;
    clock.advance(stepMs);
  }
  return passed;
}

const leasedNow = (): number => stores.reduce((sum, store) => sum + (store.leases?.leased ?? 0), 0);

test.each([
  ['a fixed window', leased(fixedWindowOf(5_000)), 0],
  ['an empty token bucket', leased(tokenBucketOf(10_000, 20_000)), 10_000], // full after twenty seconds
])('eight processes are admitted at most what %s has, and at least 98 %% of it', async (_, limit, spent) => {
  await instances(8);
  if (spent > 0) await ask(0, hitOn(limit, spent));
  const passed = await drive(limit, 20, 400, spent > 0 ? 25 : 1);
  expect(passed).toBeLessThanOrEqual(5_000);
  expect(passed).toBeGreaterThanOrEqual(4_900);
});

describe('Redis restarts', () => {
  const limit = leased(fixedWindowOf(10_000));

  /** Waits until every process has a connection again. */
  async function untilBack(): Promise<void> {
    await eventually(() => stores.every((store) => store.health().ready) && observer.status === 'ready');
  }

  test('with its data: the limit holds, and leases continue', async () => {
    await instances(2);
    const before = await drive(limit, 20, 200);
    await server.restart();
    await untilBack();
    const passed = before + (await drive(limit, 20, 600));
    expect(passed).toBeLessThanOrEqual(10_000);
    expect(passed).toBeGreaterThanOrEqual(9_800);
  });

  test('without its data: exactly one further limit is admitted', async () => {
    await instances(2);
    const before = await drive(limit, 20, 200);
    const held = leasedNow();
    await observer.flushall(); // persisted, so that Redis restarts empty
    await server.restart();
    await untilBack();
    const after = await drive(limit, 20, 800);
    expect(after).toBeLessThanOrEqual(10_000 + held);
    expect(before + after).toBeLessThanOrEqual(20_000);
    expect(after).toBeGreaterThanOrEqual(9_800);
  });
});
