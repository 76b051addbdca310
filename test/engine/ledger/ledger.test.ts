import type { Backend, Operation, Replies } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { createDebit, type Debit } from '../../../src/engine/ledger/debit.ts';
import { Ledger } from '../../../src/engine/ledger/ledger.ts';
import { leasesWithin } from '../../../src/parts/leases/leases.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { fixedWindowOf, type PolicedLimit as Limit, slidingWindowLogOf, tokenBucketOf } from '../../helpers/limits.ts';

type LedgerOptions = ConstructorParameters<typeof Ledger>[1];

const MINUTE_MS = 60_000;
const START_MS = 1_700_000_040_000; // the start of a minute
const each = { spend: 'each', timeoutMs: 15 } as const;

const wallClock = fakeClock(START_MS);
const monotonicMs = fakeClock(0);
let asked: Operation[];
/** Delays replies; undefined: no delay. */
let gate: Promise<void> | undefined;
/** The duration of each call, by the monotonic clock. */
let takesMs: number;
let published: string[];
let isLive: boolean;
let counters: Backend;
let backend: Backend;
beforeEach(() => {
  wallClock.set(START_MS);
  monotonicMs.set(0);
  asked = [];
  gate = undefined;
  takesMs = 0;
  published = [];
  isLive = true;
  counters = createMemoryBackend(wallClock, { maxCounters: 1_000 });
  backend = {
    ...counters,
    async run(operations, how): Promise<Replies> {
      asked.push(...operations);
      const replies = counters.run(operations, how);
      await gate;
      monotonicMs.advance(Math.min(takesMs, how.timeoutMs));
      return takesMs >= how.timeoutMs ? operations.map(() => ({ code: 'UNAVAILABLE', reason: 'late' })) : replies;
    },
    invalidations: () => ({ isLive: () => isLive, publish: (what, key) => published.push(`${what} ${key}`) }),
    close: async () => {},
  };
});

const open = (changes: Partial<LedgerOptions>): Ledger =>
  ledgerOf(backend, { clock: wallClock, monotonicMs, ...changes });
const caching = { denyCacheBytes: 100_000 };
const leasing = { leases: leasesWithin({ maxLeases: 10, idleMs: 250 }) };
const leased = (limit: Limit): Limit => ({ ...limit, consistency: 'leased' });
const on = (limit: Limit, hits = 1, key = 'k'): Debit =>
  createDebit({ key: key as CounterKey }, { limit, policy: limit }, hits, true);

async function ask(ledger: Ledger, ...debits: Debit[]) {
  return ledger.debit(debits, each);
}

async function stands(limit: Limit): Promise<number> {
  const [reply] = await counters.run([on(limit, 0)], each);
  return reply && 'hitsBefore' in reply ? reply.hitsBefore : Number.NaN;
}

/** Sends hits until there is a lease with hits left. */
async function leaseOn(ledger: Ledger, limit: Limit): Promise<number> {
  let passed = 0;
  while ((ledger.leases?.leased ?? 0) === 0) {
    for (let hit = 0; hit < 20; hit++) passed += (await ask(ledger, on(limit)))[0]?.code === 'OK' ? 1 : 0;
    monotonicMs.advance(1);
  }
  return passed;
}

test('operations that do not wait are answered without a promise', async () => {
  const ledger = ledgerOf(counters);
  expect(ledger.debit([on(fixedWindowOf(5))], each)).toMatchObject([{ code: 'OK' }]);
  const remembering = open(caching);
  await ask(remembering, on(fixedWindowOf(5), 6, 'full'));
  expect(remembering.debit([on(fixedWindowOf(5), 1, 'full')], each)).toMatchObject([{ fromCache: true }]);
});

describe('a lease', () => {
  test.each([
    ['rules are reloaded', async (ledger: Ledger, limit: Limit) => ask(ledger, on({ ...limit }))],
    ['the ledger is closed', async (ledger: Ledger) => ledger.close()],
  ])('does not leak if %s while it is requested', async (_, happens) => {
    const ledger = open(leasing);
    const limit = leased(fixedWindowOf(10_000));
    let passed = await leaseOn(ledger, limit);
    while ((ledger.leases?.spend(on(limit)) ?? undefined) !== undefined) passed++;
    let release = (): void => {};
    gate = new Promise((resolve) => {
      release = resolve;
    });
    const waiting = ask(ledger, on(limit));
    await new Promise(setImmediate);
    const done = happens(ledger, limit);
    release();
    gate = undefined;
    const answers = [...(await waiting), ...((await done) ?? [])];
    passed += answers.filter(({ code }) => code === 'OK').length;
    await ledger.close();
    expect(await stands(limit)).toBe(passed);
  });

  test("answers within the store's timeout, even with several calls to the store", async () => {
    const ledger = open(leasing);
    const limit = leased(fixedWindowOf(1_000));
    await leaseOn(ledger, limit);
    while (ledger.leases?.spend(on(limit)));
    await counters.run([on(limit, 990)], each); // a block is refused, and the hit requested alone
    takesMs = 10;
    const startedMs = monotonicMs();
    await ask(ledger, on(limit, 2));
    expect(monotonicMs() - startedMs).toBeLessThanOrEqual(15);
  });

  test('is also returned if refusals are cached', async () => {
    const ledger = open({ ...leasing, ...caching });
    const limit = leased(fixedWindowOf(1_000));
    const passed = await leaseOn(ledger, limit);
    const left = ledger.leases?.leased ?? 0;
    const others = 1_000 - passed - left;
    const other = open(caching);
    expect(await ask(other, on(limit, others))).toMatchObject([{ code: 'OK' }]);
    expect(await ask(other, on(limit, 1))).toMatchObject([{ code: 'OVER_LIMIT' }]);
    await ledger.close();
    expect(published).toEqual(['changed k']);
    other.refusals?.drop('k' as CounterKey); // the effect of the message there
    expect(await ask(other, on(limit, left - 1))).toMatchObject([{ code: 'OK' }]);
  });

  test('is not renewed while changes of other instances do not arrive', async () => {
    const ledger = open(leasing);
    isLive = false;
    const limit = leased(fixedWindowOf(10_000));
    for (let hit = 0; hit < 200; hit++) await ask(ledger, on(limit));
    expect(ledger.leases?.leased).toBe(0);
  });
});

describe('a cached refusal', () => {
  test('does not last longer for a wall clock that steps back an hour', async () => {
    const ledger = open(caching);
    await ask(ledger, on(fixedWindowOf(1), 2));
    wallClock.advance(-60 * MINUTE_MS);
    monotonicMs.advance(MINUTE_MS);
    await ask(ledger, on(fixedWindowOf(1)));
    expect(asked).toHaveLength(2);
  });

  test('is not created by a request that repeats the key', async () => {
    const ledger = open(caching);
    const limit = slidingWindowLogOf(1);
    await ask(ledger, on(limit), on(limit));
    expect(ledger.refusals?.size()).toBe(0);
  });

  test('is used for a second while changes of other instances do not arrive', async () => {
    const ledger = open(caching);
    await ask(ledger, on(fixedWindowOf(1), 2));
    isLive = false;
    monotonicMs.advance(999);
    expect(await ask(ledger, on(fixedWindowOf(1)))).toMatchObject([{ fromCache: true }]);
    monotonicMs.advance(1);
    expect(await ask(ledger, on(fixedWindowOf(1)))).not.toMatchObject([{ fromCache: true }]);
  });
});

test('forgetting a counter voids its lease, its refusal and its receipts, and notifies other instances', async () => {
  const ledger = open({ ...leasing, ...caching });
  const limit = leased(fixedWindowOf(1_000));
  const [entry] = await ledger.debit([on(limit, 3)], { ...each, receipts: true });
  await leaseOn(ledger, limit);
  await ledger.forget({ key: 'k' as CounterKey }, limit);
  expect([ledger.leases?.leased, await stands(limit)]).toEqual([0, 0]);
  expect(published).toContain('forgotten k');
  await ask(ledger, on(fixedWindowOf(1_000), 5));
  if (entry && 'receipt' in entry && entry.receipt) await ledger.refund(entry.receipt);
  expect(await stands(limit)).toBe(5);
});

describe('a limit with charge: always', () => {
  const limit = tokenBucketOf(60, MINUTE_MS, { burst: 10 });
  const report = (hits: number): Debit =>
    createDebit({ key: 'k' as CounterKey }, { limit, policy: {} }, hits, true, true);

  test('counts reports that its cached refusal would have refused', async () => {
    const ledger = open(caching);
    await ask(ledger, on(limit, 10));
    expect(await ask(ledger, on(limit))).toMatchObject([{ code: 'OVER_LIMIT' }]); // cached
    expect(await ask(ledger, on(limit))).toMatchObject([{ code: 'OVER_LIMIT', fromCache: true }]);
    expect(await ask(ledger, report(500))).toMatchObject([{ code: 'OVER_LIMIT', hitsBefore: 10 }]);
    expect(await ask(ledger, report(1))).toMatchObject([{ code: 'OVER_LIMIT', hitsBefore: 510 }]);
    expect(await stands(limit)).toBe(511);
  });

  test('asks the store for peeks, since each report delays when hits fit', async () => {
    const ledger = open(caching);
    const policy = { charge: 'always' } as const;
    const peek = createDebit({ key: 'k' as CounterKey }, { limit, policy }, 0, true);
    await ask(ledger, report(20));
    expect(await ask(ledger, peek)).toMatchObject([{ code: 'OVER_LIMIT', retryAfterMs: 11_000 }]);
    await ask(ledger, report(20));
    expect(await ask(ledger, peek)).toMatchObject([{ code: 'OVER_LIMIT', retryAfterMs: 31_000 }]);
  });

  test('gives receipts for refused reports, which can refund them once', async () => {
    const ledger = open({});
    const [entry] = await ledger.debit([report(5_000)], { ...each, receipts: true });
    expect(entry).toMatchObject({ code: 'OVER_LIMIT', hitsBefore: 0 });
    if (!entry || !('receipt' in entry) || !entry.receipt) throw new Error('a report has a receipt');
    await ledger.refund(entry.receipt);
    expect(await stands(limit)).toBe(0);
    await ask(ledger, report(7));
    await ledger.refund(entry.receipt);
    expect(await stands(limit)).toBe(7);
  });
});

test('refusals are requested again after changes of other instances may have been missed', async () => {
  let missed = (): void => {};
  const inner = backend;
  backend = {
    ...inner,
    invalidations: (listener) => {
      missed = listener.missed;
      return { isLive: () => true, publish: () => {} };
    },
  };
  const ledger = open(caching);
  const limit = fixedWindowOf(1, MINUTE_MS);
  await ask(ledger, on(limit, 2));
  expect(await ask(ledger, on(limit))).toMatchObject([{ code: 'OVER_LIMIT', fromCache: true }]);
  monotonicMs.advance(1);
  missed();
  expect(await ask(ledger, on(limit))).not.toMatchObject([{ fromCache: true }]);
  expect(asked).toHaveLength(2);
});

test('the last page of counters has no next page, with one store and with two', async () => {
  const listing = { ...backend, list: async () => ({ keys: [] }) };
  const one = ledgerOf(listing, { clock: wallClock, monotonicMs });
  expect(await one.list(undefined, 10)).toEqual({ keys: [] });
  const two = new Ledger(
    { main: listing, perSecond: listing },
    { ...{ clock: wallClock, monotonicMs, instance: 'test', denyCacheBytes: 0 }, every: () => () => {} },
  );
  expect(await two.list(undefined, 10)).toEqual({ keys: [], next: '1/' });
  expect(await two.list('1/', 10)).toEqual({ keys: [] });
});
