import { randomUUID } from 'node:crypto';
import type { Redis as Connection } from 'ioredis';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { type Decider, decide } from '../../../src/engine/decide/decide.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { type FakeClock, fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { until } from '../../helpers/until.ts';

/** What a schedule does to counters, on each kind of store, with a clock that both sides share. */

let server: Redis;
let operator: Connection;
beforeAll(async () => {
  server = await startRedis();
  operator = await openReady(server);
});
afterAll(async () => {
  operator.disconnect();
  await server.stop();
});

const backends: readonly (readonly [name: string, open: (clock: FakeClock) => Promise<Backend> | Backend])[] = [
  ['memory', (clock) => createMemoryBackend(clock, { maxCounters: 1_000 })],
  // its own time stands still, so that changes never count as missed once they have arrived
  [
    'Redis',
    async (clock) => new RedisBackend(await openReady(server), clock, { replay: true, monotonicMs: fakeClock() }),
  ],
];

const at = (text: string): number => Date.parse(text);

/** A service by these rules that begins at a time. */
async function serviceAt(time: string, limit: string, backendOf: (clock: FakeClock) => Promise<Backend> | Backend) {
  const clock = fakeClock(at(time) - 1);
  const backend = await backendOf(clock);
  const rules = rulesFrom(`domain: demo\ndescriptors: [{ key: user, ${limit} }]`);
  const counters = ownCounters(createCounterKeys(`${randomUUID()}:`));
  const ledger = ledgerOf(backend, { clock, monotonicMs: clock, denyCacheBytes: 100_000 });
  const changes = backend.invalidations?.({ changed: () => {}, forgotten: () => {}, missed: () => {} });
  await until('changes to arrive', () => changes?.isLive() ?? true);
  clock.advance(1); // no refusal is remembered of the time at which they arrived first
  const decider: Decider = deciderOf(rules, { clock, counters, ledger, storeBudget: () => 10_000 });
  const ask = async (hits = 1) => {
    const request = {
      domain: 'demo',
      descriptors: [{ entries: [{ key: 'user', value: 'a' }], requestLimit: undefined, hits }],
    };
    const { overallCode, verdicts } = await decide(request, decider, 10_000);
    const [verdict] = verdicts;
    if (verdict?.kind !== 'limited') return { code: overallCode, kind: verdict?.kind };
    const { limitRemaining: left, durationUntilResetMs: resetMs, retryAfterMs, fromCache } = verdict.decision;
    return { code: overallCode, left, resetMs, ...(overallCode === 'OVER_LIMIT' && { retryAfterMs, fromCache }) };
  };
  return { clock, ask, close: () => ledger.close() };
}

const HOUR_MS = 3_600_000;
/** As in scripts/dispatcher.ts: counters with a given clock stay this much longer, since the clock may be behind the server's. */
const MAX_BEHIND_MS = 10_000;
const NIGHT = 'active: { hours: 22:00-06:00, timezone: Europe/Berlin }';

describe.each(backends)('counters in %s', (_, backendOf) => {
  test('a counter goes on over a change of the schedule, and answers promise nothing beyond it', async () => {
    const limit = `rate_limit: { unit: day, requests_per_unit: 2, schedule: [{ ${NIGHT}, requests_per_unit: 5 }] }`;
    const { clock, ask, close } = await serviceAt('2026-11-23T20:00Z', limit, backendOf); // 21:00 in Berlin
    expect(await ask(2)).toEqual({ code: 'OK', left: 0, resetMs: HOUR_MS });
    expect(await ask()).toEqual({ code: 'OVER_LIMIT', left: 0, resetMs: HOUR_MS, retryAfterMs: HOUR_MS });
    expect(await ask()).toMatchObject({ code: 'OVER_LIMIT', retryAfterMs: HOUR_MS, fromCache: true });
    clock.advance(HOUR_MS - 1);
    expect(await ask()).toMatchObject({ code: 'OVER_LIMIT', retryAfterMs: 1 });
    clock.advance(1);
    expect(await ask()).toMatchObject({ code: 'OK', resetMs: 3 * HOUR_MS }); // the window's end: by day less may pass
    await close();
  });

  test('a counter with on_change: reset begins anew at a change, and is found again when the numbers return', async () => {
    const limit = `rate_limit: { unit: week, requests_per_unit: 2, on_change: reset, schedule: [{ ${NIGHT}, requests_per_unit: 5 }] }`;
    const { clock, ask, close } = await serviceAt('2026-11-23T20:00Z', limit, backendOf);
    expect(await ask(2)).toMatchObject({ code: 'OK', left: 0 });
    clock.advance(HOUR_MS);
    expect(await ask(2)).toMatchObject({ code: 'OK', left: 3, resetMs: 8 * HOUR_MS });
    clock.advance(8 * HOUR_MS);
    expect(await ask()).toMatchObject({ code: 'OVER_LIMIT' });
    await close();
  });

  test('an entry with another algorithm has its own counters, and nothing is counted where the limit does not apply', async () => {
    const limit = `rate_limit: { unit: hour, requests_per_unit: 3, active: { until: 2026-11-24T00:00 }, schedule: [{ ${NIGHT}, algorithm: token_bucket, burst: 9 }] }`;
    const { clock, ask, close } = await serviceAt('2026-11-23T20:30Z', limit, backendOf);
    expect(await ask(3)).toMatchObject({ code: 'OK', left: 0, resetMs: HOUR_MS / 2 });
    clock.advance(HOUR_MS / 2);
    expect(await ask(1)).toMatchObject({ code: 'OK', left: 8 });
    clock.advance(8 * HOUR_MS); // the limit itself has ended by then
    expect(await ask(1_000)).toEqual({ code: 'OK', kind: 'unlimited' });
    await close();
  });

  test('a limit of 0 refuses until it ends', async () => {
    const limit = `rate_limit: { unit: minute, requests_per_unit: 3, schedule: [{ ${NIGHT}, requests_per_unit: 0 }] }`;
    const { ask, close } = await serviceAt('2026-11-23T23:00Z', limit, backendOf);
    expect(await ask()).toMatchObject({ code: 'OVER_LIMIT', retryAfterMs: 6 * HOUR_MS });
    await close();
  });

  test('a window with an anchor ends by the clock of its time zone', async () => {
    const limit =
      'rate_limit: { unit: day, requests_per_unit: 2, alignment: { anchor: 2026-01-01T09:00, timezone: Europe/Berlin } }';
    const { clock, ask, close } = await serviceAt('2026-10-24T07:00Z', limit, backendOf); // 09:00, the clock goes back
    expect(await ask(2)).toEqual({ code: 'OK', left: 0, resetMs: 25 * HOUR_MS });
    clock.advance(25 * HOUR_MS - 1);
    expect(await ask()).toMatchObject({ code: 'OVER_LIMIT', retryAfterMs: 1 });
    clock.advance(1);
    expect(await ask()).toMatchObject({ code: 'OK', left: 1, resetMs: 24 * HOUR_MS });
    await close();
  });

  test('a limit with a schedule and another one beside it are answered in their order', async () => {
    const limit = `rate_limits: [{ unit: hour, requests_per_unit: 4, schedule: [{ ${NIGHT}, requests_per_unit: 9 }] }, { unit: day, requests_per_unit: 6 }]`;
    const { clock, ask, close } = await serviceAt('2026-11-23T20:00Z', limit, backendOf);
    expect(await ask(4)).toMatchObject({ code: 'OK', left: 0, resetMs: HOUR_MS });
    expect(await ask(1)).toMatchObject({ code: 'OVER_LIMIT', retryAfterMs: HOUR_MS });
    clock.advance(HOUR_MS);
    expect(await ask(1)).toMatchObject({ code: 'OK', left: 0, resetMs: 3 * HOUR_MS }); // of the day: 4, 1 refused, 1
    await close();
  });
});

test('the key of a counter in Redis outlives a change of the schedule as long as its window lasts', async () => {
  const prefix = randomUUID();
  const clock = fakeClock(at('2026-11-23T20:59:59Z'));
  const backend = new RedisBackend(await openReady(server), clock, { replay: true });
  const rules = rulesFrom(
    `domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 2, schedule: [{ ${NIGHT}, requests_per_unit: 5 }] } }]`,
  );
  const ledger = ledgerOf(backend, { clock, monotonicMs: clock });
  const counters = ownCounters(createCounterKeys(`${prefix}:`));
  const decider = deciderOf(rules, { clock, ledger, counters, storeBudget: () => 10_000 });
  const descriptors = [{ entries: [{ key: 'user', value: 'a' }], requestLimit: undefined, hits: 1 }];
  for (let round = 0; round < 2; round++) {
    await decide({ domain: 'demo', descriptors }, decider, 10_000);
    clock.advance(1_000);
  }
  const keys = await operator.keys(`${prefix}:*`);
  expect(keys).toEqual([`${prefix}:fixed_window.2|86400000|4:demo|4:user|1:a`]);
  const leftMs = await operator.pttl(keys[0] ?? '');
  expect(leftMs).toBeGreaterThan(2 * HOUR_MS);
  expect(leftMs).toBeLessThanOrEqual(3 * HOUR_MS + 2_000 + MAX_BEHIND_MS);
  await ledger.close();
});
