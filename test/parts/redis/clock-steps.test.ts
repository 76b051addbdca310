import { randomUUID } from 'node:crypto';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createDebit } from '../../../src/engine/ledger/debit.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { onStillClock } from '../../helpers/lasting-counters.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';

/** Remembered refusals while the clock of Redis and the monotonic clock of the process move apart. */

let server: Redis;
beforeAll(async () => {
  server = await startRedis();
});
let close = async (): Promise<void> => {};
afterEach(() => close());
afterAll(() => server.stop());

const limit = fixedWindowOf(1, unitMs.DAY);

/** An instance that remembers the refusal of `hit`. */
async function refusing() {
  const redisClock = fakeClock();
  const monotonicMs = fakeClock(0);
  const backend = new RedisBackend(await openReady(server), redisClock, { ...onStillClock, monotonicMs });
  const ledger = ledgerOf(backend, { monotonicMs, denyCacheBytes: 1_000_000 });
  close = () => ledger.close();
  const invalidations = backend.invalidations({ changed: () => {}, forgotten: () => {}, missed: () => {} }); // those of the ledger
  await until('changes to arrive, which drops refusals once', () => invalidations.isLive());
  monotonicMs.advance(1);
  const counter = randomUUID();
  const on = async (key: string) => {
    const debit = createDebit({ key: key as CounterKey }, { limit, policy: {} }, 1, true); // any key will do
    const [reply] = await ledger.debit([debit], { spend: 'each', timeoutMs: 10_000 });
    return reply;
  };
  const hit = () => on(counter);
  await hit();
  expect(await hit()).toMatchObject({ code: 'OVER_LIMIT' });
  expect(await hit()).toMatchObject({ code: 'OVER_LIMIT', fromCache: true });
  return { redisClock, monotonicMs, hit, another: () => on(randomUUID()) };
}

test('a refusal is dropped when a reply shows that the clock of Redis has stepped forward', async () => {
  const { redisClock, hit, another } = await refusing();
  redisClock.advance(30 * unitMs.HOUR);
  await another();
  expect(await hit()).toMatchObject({ code: 'OK' });
});

test('a refusal from before a step back is dropped when the clock of Redis steps forward again', async () => {
  const { redisClock, hit, another } = await refusing();
  redisClock.advance(-unitMs.HOUR);
  await another();
  redisClock.advance(30 * unitMs.HOUR);
  await another();
  expect(await hit()).toMatchObject({ code: 'OK' });
});

test('a refusal is kept while both clocks advance, however slow the calls are', async () => {
  const { redisClock, monotonicMs, hit, another } = await refusing();
  for (let call = 0; call < 5; call++) {
    const reply = another();
    monotonicMs.advance(50); // in flight
    await reply;
    redisClock.advance(100);
    monotonicMs.advance(50);
  }
  expect(await hit()).toMatchObject({ code: 'OVER_LIMIT', fromCache: true });
});
