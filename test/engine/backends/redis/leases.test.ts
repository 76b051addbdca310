import '../../../helpers/realm.ts';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Redis as Connection } from 'ioredis';
import { LONGEST_LEASE_MS } from '../../../../src/engine/algorithms/token-bucket.ts';
import type { Backend } from '../../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../../src/engine/backends/key.ts';
import { RedisBackend } from '../../../../src/engine/backends/redis/backend.ts';
import { createDebit, type Debit } from '../../../../src/engine/ledger/debit.ts';
import type { Ledger } from '../../../../src/engine/ledger/ledger.ts';
import { fakeClock } from '../../../helpers/clock.ts';
import { openReady } from '../../../helpers/connection.ts';
import { ledgerOf } from '../../../helpers/ledger.ts';
import { fixedWindowOf, type PolicedLimit as Limit, tokenBucketOf } from '../../../helpers/limits.ts';
import { type Redis, startRedis } from '../../../helpers/redis.ts';
import { eventually } from '../../../helpers/until.ts';

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

async function instances(count: number, idleMs = MINUTE_MS): Promise<void> {
  for (let at = 0; at < count; at++) {
    const backend = await countIn();
    const changes = { clock, monotonicMs: clock, leases: { maxLeases: 100, idleMs }, every };
    stores.push(ledgerOf(backend, changes));
    const own = backend.invalidations?.({ changed: () => {}, forgotten: () => {}, missed: () => {} });
    await eventually(() => own?.isLive() ?? false);
  }
}

const leased = (limit: Limit): Limit => ({ ...limit, consistency: 'leased' });
const hitOn = (limit: Limit, hits = 1): Debit =>
  createDebit({ key: counterKeys(limit, 'api', []) }, { limit, policy: limit }, hits, true);

async function ask(at: number, hit: Debit, spend: 'each' | 'all_or_nothing' = 'each') {
  const [answer] = (await stores[at % stores.length]?.debit([hit], { ...each, spend })) ?? [];
  return answer;
}

/**
 * Sends requests to the stores in turn, all those of a step at once. @returns the number of admitted hits
 *
 * Redis expires counters by its own clock, however slow the test's is: the rest of a window, or the time until a bucket
 * is full, must be much longer than the steps take.
 */
async function drive(limit: Limit, perStep: number, steps: number, { hits = 1, stepMs = 1 } = {}): Promise<number> {
  let passed = 0;
  for (let step = 0; step < steps; step++) {
    const asked = Array.from({ length: perStep }, (_, at) => ask(step * perStep + at, hitOn(limit, hits)));
    for (const answer of await Promise.all(asked)) if (answer?.code === 'OK') passed += hits;
    clock.advance(stepMs);
  }
  return passed;
}

/** The spent hits of the counter in Redis, including leased ones. */
async function spentOf(limit: Limit): Promise<number> {
  const [answer] = (await stores[0]?.debit([hitOn(limit, 0)], each)) ?? [];
  return answer && 'hitsBefore' in answer ? answer.hitsBefore : Number.NaN;
}

const leasedNow = (): number => stores.reduce((sum, store) => sum + (store.leases?.leased ?? 0), 0);

async function scriptCalls(): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await observer.info('commandstats'))?.[1]);
}

describe.each([1, 2, 8])('with %d processes', (count) => {
  test.each([
    ['a fixed window', leased(fixedWindowOf(1_000_000))],
    ['a token bucket', leased(tokenBucketOf(1_000_000))],
  ])('%s below its limit takes at most a twentieth of the calls', async (_, limit) => {
    await instances(count);
    await drive(limit, 1, 1); // loads the script into Redis
    const before = await scriptCalls();
    expect(await drive(limit, 40, 500)).toBe(20_000);
    expect((await scriptCalls()) - before).toBeLessThanOrEqual(20_000 / 20);
  });

  test('a fixed window admits at most its limit, and at least 98 % of it', async () => {
    await instances(count);
    const limit = leased(fixedWindowOf(5_000));
    const passed = await drive(limit, 20, 400);
    expect(passed).toBeLessThanOrEqual(5_000);
    expect(passed).toBeGreaterThanOrEqual(4_900);
  });

  test('an empty token bucket admits at most its refill, and at least 98 % of it', async () => {
    await instances(count);
    const limit = leased(tokenBucketOf(10_000, 10_000)); // full after ten seconds
    await ask(0, hitOn(limit, 10_000));
    const passed = await drive(limit, 20, 500, { stepMs: 10 });
    expect(passed).toBeLessThanOrEqual(5_000);
    expect(passed).toBeGreaterThanOrEqual(4_900);
  });
});

test('requests for several hits pass completely, up to the limit', async () => {
  await instances(2);
  const limit = leased(fixedWindowOf(10_000));
  const passed = await drive(limit, 5, 500, { hits: 7 });
  expect(passed).toBeLessThanOrEqual(10_000);
  expect(passed).toBeGreaterThanOrEqual(9_800);
});

test('refunded hits are available to every process', async () => {
  await instances(2);
  const limit = leased(fixedWindowOf(1_000));
  await ask(0, hitOn(limit, 1_000));
  expect(await ask(1, hitOn(limit, -1_000))).toMatchObject({ code: 'OK' });
  expect(await spentOf(limit)).toBe(0);
  expect(await ask(0, hitOn(limit, 1_000))).toMatchObject({ code: 'OK' });
});

test('requests that spend all or nothing are counted in Redis, in addition to leases', async () => {
  await instances(1);
  const limit = leased(fixedWindowOf(10_000));
  const passed = await drive(limit, 20, 50);
  const rest = 10_000 - passed - leasedNow();
  expect(await ask(0, hitOn(limit, rest + 1), 'all_or_nothing')).toMatchObject({ code: 'OVER_LIMIT' });
  expect(await ask(0, hitOn(limit, rest), 'all_or_nothing')).toMatchObject({ code: 'OK' });
});

test('a process that dies loses no more than its lease', async () => {
  await instances(2);
  const limit = leased(fixedWindowOf(10_000));
  const before = await drive(limit, 20, 100);
  const [dead] = stores;
  const lost = dead?.leases?.leased ?? 0;
  expect(lost).toBeGreaterThan(0);
  stores = stores.slice(1);
  const passed = before + (await drive(limit, 20, 600));
  stores.push(...(dead ? [dead] : [])); // closed only now, so that it returned nothing
  expect(passed).toBeLessThanOrEqual(10_000);
  expect(passed).toBeGreaterThanOrEqual(10_000 - lost);
});

test('hits that one process does not use are available to another', async () => {
  await instances(2, 20);
  const limit = leased(fixedWindowOf(10_000));
  const passed = await drive(limit, 20, 50);
  expect(leasedNow()).toBeGreaterThan(0);
  clock.advance(21);
  await eventually(async () => (await spentOf(limit)) <= passed);
  expect(leasedNow()).toBe(0);
  expect(await ask(1, hitOn(limit, 10_000 - passed))).toMatchObject({ code: 'OK' });
});

test('near the end of a window, no more than the limit is admitted', async () => {
  await instances(4);
  const limit = leased(fixedWindowOf(2_000));
  clock.set(START_MS + MINUTE_MS - 20_000);
  const passed = await drive(limit, 20, 150, { stepMs: 100 });
  expect(passed).toBeLessThanOrEqual(2_000);
  expect(passed).toBeGreaterThanOrEqual(1_960);
});

test('hits leased in a window are neither used nor returned in the next one', async () => {
  await instances(4);
  const limit = leased(fixedWindowOf(2_000));
  clock.set(START_MS + MINUTE_MS - 20_000);
  await drive(limit, 20, 50);
  expect(leasedNow()).toBeGreaterThan(0);
  clock.set(START_MS + MINUTE_MS);
  expect(leasedNow()).toBe(0);
  await stores[0]?.debit([hitOn(fixedWindowOf(2_000), 100)], each); // in the new window, without leases
  await stores.pop()?.close();
  expect(await spentOf(limit)).toBe(100);
  const passed = await drive(limit, 20, 200);
  expect(passed).toBeLessThanOrEqual(1_900);
  expect(passed).toBeGreaterThanOrEqual(1_860);
});

test('tokens leased longer than the maximum are forgotten', async () => {
  await instances(1);
  const limit = leased(tokenBucketOf(10_000));
  await drive(limit, 20, 50);
  expect(leasedNow()).toBeGreaterThan(0);
  clock.advance(LONGEST_LEASE_MS);
  expect(leasedNow()).toBe(0);
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
