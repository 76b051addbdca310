import type { Backend } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { createDebit, type Debit } from '../../../src/engine/ledger/debit.ts';
import type { Ledger } from '../../../src/engine/ledger/ledger.ts';
import { leasesWithin } from '../../../src/parts/leases/leases.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { fixedWindowOf, type PolicedLimit as Limit, tokenBucketOf } from '../../helpers/limits.ts';

const MINUTE_MS = 60_000;
const START_MS = 1_700_000_040_000; // the start of a minute
const each = { spend: 'each', timeoutMs: 1_000 } as const;

const clock = fakeClock(START_MS);
let calls: number;
let isAway: boolean;
let counters: Backend;
let stores: Ledger[];
/** The ledgers' periodic functions. */
let sweeps: (() => void)[];
const every = (_: number, run: () => void) => {
  sweeps.push(run);
  return () => {};
};
beforeEach(() => {
  clock.set(START_MS);
  calls = 0;
  isAway = false;
  const memory = createMemoryBackend(clock, { maxCounters: 1_000 });
  counters = {
    ...memory,
    run(hits, how) {
      calls++;
      if (isAway) return hits.map(() => ({ code: 'UNAVAILABLE', reason: 'away' }));
      return memory.run(hits, how);
    },
    close: async () => {},
  };
  stores = [];
  sweeps = [];
});
afterEach(async () => {
  for (const store of stores) await store.close();
});

function instances(count: number, idleMs = 60_000): readonly Ledger[] {
  stores = Array.from({ length: count }, () =>
    ledgerOf(counters, { clock, monotonicMs: clock, leases: leasesWithin({ maxLeases: 100, idleMs }), every }),
  );
  return stores;
}

const leased = (limit: Limit): Limit => ({ ...limit, consistency: 'leased' });
const hitOn = (limit: Limit, hits = 1): Debit =>
  createDebit({ key: 'k' as CounterKey }, { limit, policy: limit }, hits, true);

/** Sends `perMs` hits per millisecond one after another to the stores in turn. @returns the number of admitted hits */
async function drive(limit: Limit, perMs: number, forMs: number): Promise<number> {
  let passed = 0;
  for (let ms = 0; ms < forMs; ms++) {
    for (let at = 0; at < perMs; at++) {
      const [answer] = (await stores[(ms * perMs + at) % stores.length]?.debit([hitOn(limit)], each)) ?? [];
      if (answer?.code === 'OK') passed++;
    }
    clock.advance(1);
  }
  return passed;
}

const standsAt = async (limit: Limit): Promise<number> => {
  const [answer] = await counters.run([hitOn(limit, 0)], each);
  return answer && 'hitsBefore' in answer ? answer.hitsBefore : Number.NaN;
};

describe.each([1, 8])('with %d processes', (count) => {
  test('a fixed window admits exactly its limit, with a twentieth of the calls', async () => {
    instances(count);
    const limit = leased(fixedWindowOf(20_000));
    expect(await drive(limit, 20, 900)).toBe(18_000); // below the limit nothing is refused
    expect(calls).toBeLessThan(18_000 / 20);
    expect(await drive(limit, 20, 200)).toBe(2_000); // the limit is used up to the last hit
  });

  test('a new lease is taken in every window', async () => {
    instances(count);
    const limit = leased(fixedWindowOf(1_000, 1_000));
    for (let window = 0; window < 3; window++) {
      const passed = await drive(limit, 2, 1_000);
      expect(passed).toBeLessThanOrEqual(1_000);
      expect(passed).toBeGreaterThanOrEqual(980);
    }
  });

  test('a token bucket admits its size and its refill', async () => {
    instances(count);
    const limit = leased(tokenBucketOf(10_000, 1_000, { burst: 2_000 }));
    const passed = await drive(limit, 20, 1_000);
    expect(passed).toBeLessThanOrEqual(12_000);
    expect(passed).toBeGreaterThanOrEqual(11_760);
    expect(calls).toBeLessThan(20_000);
  });
});

test('a process that dies loses its lease, so that fewer hits pass, never more', async () => {
  const [dead] = instances(2);
  const limit = leased(fixedWindowOf(10_000));
  const before = await drive(limit, 20, 100);
  const lost = dead?.leases?.leased ?? 0;
  expect(lost).toBeGreaterThan(0);
  stores = stores.slice(1);
  expect(before + (await drive(limit, 20, 600))).toBe(10_000 - lost);
});

test('a process leases about as many hits as it uses in a tenth of a second', async () => {
  const [ledger] = instances(1);
  const limit = leased(fixedWindowOf(10_000, MINUTE_MS));
  for (let hits = 0; hits < 20; hits++) {
    await ledger?.debit([hitOn(limit)], each);
    clock.advance(10);
  }
  expect(await standsAt(limit)).toBeGreaterThan(20);
  expect(await standsAt(limit)).toBeLessThanOrEqual(40);
});

test('unused hits are returned', async () => {
  instances(1, 20);
  const limit = leased(fixedWindowOf(10_000));
  const passed = await drive(limit, 20, 50);
  expect(stores[0]?.leases?.leased).toBeGreaterThan(0);
  clock.advance(21);
  for (const sweep of sweeps) sweep();
  expect(stores[0]?.leases?.leased).toBe(0);
  expect(await standsAt(limit)).toBe(passed);
});

test('remaining hits are returned on close', async () => {
  const [store] = instances(1);
  const limit = leased(fixedWindowOf(10_000));
  const passed = await drive(limit, 20, 50);
  await store?.close();
  stores = [];
  expect(await standsAt(limit)).toBe(passed);
});

test('tokens are leased for a second at most, since a bucket has no window', async () => {
  instances(1);
  await drive(leased(tokenBucketOf(10_000)), 20, 50);
  expect(stores[0]?.leases?.leased).toBeGreaterThan(0);
  clock.advance(1_000);
  expect(stores[0]?.leases?.leased).toBe(0);
});

test('a lease ends with its window', async () => {
  instances(1);
  const limit = leased(fixedWindowOf(1_000));
  await drive(limit, 5, 100);
  clock.set(START_MS + MINUTE_MS);
  expect(stores[0]?.leases?.leased).toBe(0);
  await drive(limit, 1, 1);
  expect(await standsAt(limit)).toBeGreaterThanOrEqual(1); // counted in the new window
});

test('while the store is down, leased hits are used, and then there is no answer', async () => {
  const [store] = instances(1);
  const limit = leased(fixedWindowOf(10_000));
  await drive(limit, 20, 50);
  isAway = true;
  const left = store?.leases?.leased ?? 0;
  expect(await drive(limit, 20, 50)).toBe(left);
  expect(await store?.debit([hitOn(limit)], each)).toMatchObject([{ code: 'UNAVAILABLE', reason: 'away' }]);
});

test('peeks, refunds, strict limits and requests that spend as a set use the counter itself', async () => {
  const [store] = instances(1);
  const limit = leased(fixedWindowOf(10_000));
  await drive(limit, 20, 50);
  const before = calls;
  await store?.debit([hitOn(limit, 0)], each);
  await store?.debit([hitOn(limit, -1)], each);
  await store?.debit([hitOn(fixedWindowOf(10_000))], each);
  await store?.debit([hitOn(limit)], { ...each, spend: 'all_or_nothing' });
  expect(calls - before).toBe(4);
});

test('many concurrent requests for more hits are answered with a few calls', async () => {
  const [store] = instances(1);
  const limit = leased(fixedWindowOf(1_000_000));
  await drive(limit, 50, 50);
  const before = calls;
  const answers = await Promise.all(Array.from({ length: 20_000 }, async () => store?.debit([hitOn(limit)], each)));
  expect(answers.flat().every((answer) => answer?.code === 'OK')).toBe(true);
  expect(calls - before).toBeLessThan(200);
});
