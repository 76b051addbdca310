import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { createDebit } from '../../../src/engine/ledger/debit.ts';
import { noPeerCounts } from '../../../src/operate/observe/site-counts.ts';
import { writeArithmetic } from '../../../src/parts/lab/counters/counter-state.ts';
import { Borrower, borrowingLedger, type Peer } from '../../../src/parts/sites/borrower.ts';
import { Lender } from '../../../src/parts/sites/lender.ts';
import { LowCounters } from '../../../src/parts/sites/low-counters.ts';
import { createMeasuredError } from '../../../src/parts/sites/measured-error.ts';
import { type SiteShareLimit, siteShare, siteStanding } from '../../../src/parts/sites/site-share.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { fixedWindowOf, ownLimitsOf, siteShareOf } from '../../helpers/limits.ts';

const START_MS = 1_700_000_040_000; // the start of a minute
const keyOf = (of: string) => `site_share|${of}|60000/2.names|1:d|1:k|1:v` as CounterKey; // like a key that the rules make
const KEY = keyOf('fixed_window');
const SITES = ['east', 'west'];

/** Two sites in one process; messages from east to west arrive at once or are lost. */
function twoSites(more: Partial<SiteShareLimit> = {}) {
  const clock = fakeClock(START_MS);
  const places = SITES.map((site, place) => {
    const backend = createMemoryBackend(clock, { maxCounters: 100 });
    const limit = siteShareOf(100, 60_000, { site: place, ...more });
    return { site, place, backend, limit, ledger: ledgerOf(backend, { clock, monotonicMs: clock, instance: site }) };
  });
  const [east, west] = places;
  if (!east || !west) throw new Error('there are two');
  const common = { timeoutMs: 1_000, monotonicMs: clock, prefix: '', sites: SITES };
  const toEast: Peer = { site: 'east', place: 0, counts: noPeerCounts(), borrow: () => Promise.reject(new Error()) };
  const lender = new Lender({
    ...{ ...common, lost: [], ledger: west.ledger, peers: [toEast] },
    limits: ownLimitsOf(west.limit),
  });
  const fault = { isCut: false };
  const toWest: Peer = {
    ...{ site: 'west', place: 1, counts: noPeerCounts() },
    borrow: (request) => (fault.isCut ? Promise.reject(new Error('cut off')) : lender.lend(request)),
  };
  const low = new LowCounters(clock);
  const error = createMeasuredError(clock);
  const borrower = new Borrower({ ...common, ledger: east.ledger, site: 'east', peers: [toWest], error });
  const spend = async ({ ledger, limit }: typeof east, hits: number) => {
    const debit = createDebit({ key: keyOf(limit.of) }, { limit, policy: {} }, hits, true);
    const [entry] = await ledger.debit([debit], { spend: 'each', timeoutMs: 1 });
    low.note(debit, entry);
    return entry?.code;
  };
  return { clock, east, west, low, error, borrower, counts: toWest.counts, fault, spend, common, toWest };
}

test('a site that runs low borrows hits that the other one does not use', async () => {
  const { east, low, borrower, counts, spend } = twoSites();
  expect(await spend(east, 50)).toBe('OK');
  expect(await spend(east, 10)).toBe('OVER_LIMIT');
  await borrower.exchange(low.all());
  expect(counts).toMatchObject({ exchanges: 1, failing: 0, borrowed: 46 });
  expect(await spend(east, 46)).toBe('OK');
  expect(await spend(east, 1)).toBe('OVER_LIMIT');
  expect(siteStanding(east.limit, east.backend.readState(KEY), START_MS)).toEqual({
    ...{ base: 50, advance: 0, used: 96, lent: 0, borrowed: 46 },
  });
  const standing = { state: east.backend.readState(KEY), nowMs: START_MS, hits: 1 };
  expect(writeArithmetic(east.limit, standing, true)).toBe('96 + -46 borrowed + 1 = 51 > 50');
});

test('what is known to be refused is answered without the store by a ledger that borrows as well', async () => {
  const { clock, east, low, borrower } = twoSites();
  const local = { maxCounters: 100, maxBytes: 1_000_000, instances: () => 1 };
  const own = ledgerOf(east.backend, { clock, monotonicMs: clock, local });
  const { ledger, close } = borrowingLedger(own, low, borrower);
  const debit = createDebit({ key: KEY }, { limit: fixedWindowOf(0), policy: {} }, 1, true);
  await ledger.debit([debit], { spend: 'each', timeoutMs: 1 });
  expect(ledger.recall?.([debit], 'each')).toMatchObject([{ code: 'OVER_LIMIT', fromCache: true }]);
  await close();
});

test('a site does not lend hits that it will use itself', async () => {
  const { east, west, low, borrower, counts, spend } = twoSites();
  await spend(west, 40);
  await spend(east, 50);
  await spend(east, 50);
  await borrower.exchange(low.all());
  expect(counts.borrowed).toBe(0); // if this rate continues
});

test('a site that cannot reach the other one uses its own part, and reports the reason', async () => {
  const { east, low, borrower, counts, fault, spend } = twoSites();
  fault.isCut = true;
  await spend(east, 60);
  for (let time = 0; time < 3; time++) {
    await borrower.exchange(low.all());
    await borrower.ended();
  }
  expect(counts).toMatchObject({ exchanges: 0, failures: 3, failing: 3, problem: 'cut off' });
  expect(await spend(east, 50)).toBe('OK');
});

test('a site that has not answered does not delay exchanges with the others', async () => {
  const { east, low, error, spend, common, toWest } = twoSites();
  let asks = 0;
  let answer: (response: { loans: [] }) => void = () => {};
  const silent: Peer = {
    ...{ site: 'north', place: 1, counts: { ...noPeerCounts(), failing: 1 } },
    borrow: () => {
      asks++;
      return new Promise((resolve) => {
        answer = resolve;
      });
    },
  };
  const peers = [silent, toWest];
  const borrower = new Borrower({ ...common, ledger: east.ledger, site: 'east', peers, error });
  await spend(east, 60);
  await borrower.exchange(low.all());
  await spend(east, 60);
  await borrower.exchange(low.all());
  expect([asks, toWest.counts.exchanges]).toEqual([1, 2]);
  answer({ loans: [] });
  await borrower.ended();
  expect(silent.counts.failing).toBe(0);
});

test('hits refused over a longer time than the measurement of demand count in proportion', async () => {
  const { clock, east, low, borrower, counts, spend } = twoSites();
  clock.advance(54_000);
  await spend(east, 45);
  await spend(east, 50); // refused, and checked only half a second before the end of the window
  clock.advance(5_500);
  await borrower.exchange(low.all());
  expect(counts.borrowed).toBeGreaterThan(0);
  expect(counts.borrowed).toBeLessThan(10); // 50 in 5.5 s correspond to 5 in half a second
});

test('with a declared error, a site admits its part of the error in advance, which exchanges measure', async () => {
  const { clock, east, west, low, borrower, error, spend } = twoSites({ maxErrorPercent: 10 });
  expect(await spend(west, 50)).toBe('OK');
  expect(await spend(east, 55)).toBe('OK');
  expect(await spend(east, 1)).toBe('OVER_LIMIT');
  await borrower.exchange(low.all());
  expect([error.ratio, error.bound]).toEqual([0.05, 0.1]);
  clock.advance(61_000);
  expect([error.ratio, error.bound]).toEqual([0, 0]);
});

test('counters that are no longer low are not requested', async () => {
  const { clock, east, low, spend } = twoSites();
  await spend(east, 20);
  expect(low.all()).toEqual([]);
  await spend(east, 25);
  expect(low.all()).toHaveLength(1);
  clock.advance(11_000);
  expect(low.all()).toEqual([]);
  expect(siteShare.capacity(east.limit)).toBe(50);
});

test('a counter is low after a refused peek, and after a charge that leaves little', async () => {
  const { east, low } = twoSites();
  const run = async (kind: 'peek' | 'charge', hits: number) => {
    const debit = { kind, key: KEY, limit: east.limit, hits, blocks: true, policy: {} };
    const [entry] = await east.ledger.debit([debit], { spend: 'each', timeoutMs: 1 });
    return low.note(debit, entry);
  };
  expect([await run('peek', 50), await run('peek', 51), await run('peek', 0)]).toEqual([false, true, false]);
  expect(low.all()).toMatchObject([{ refused: 51 }]);
  expect([await run('charge', 10), await run('charge', 50), await run('peek', 0)]).toEqual([false, true, true]);
  expect(low.all()).toMatchObject([{ refused: 52 }]);
});

test('taken tokens are confirmed again in each minute', async () => {
  const { clock, east, west, low, borrower, counts, spend } = twoSites({ of: 'token_bucket' });
  const state = () => siteStanding(west.limit, west.backend.readState(keyOf('token_bucket')), clock());
  const exchange = () => borrower.exchange(low.all());
  clock.advance(55_000);
  await spend(east, 50);
  await spend(east, 20);
  await exchange();
  expect(await spend(east, 46)).toBe('OK');
  clock.advance(1_000); // nothing more is needed
  await exchange();
  await exchange();
  expect(counts).toMatchObject({ exchanges: 2, borrowed: 46 });
  clock.advance(5_000);
  await spend(east, 60);
  await borrower.exchange(low.all().map((one) => ({ ...one, confirmed: [] }))); // by another instance, which then ends
  for (const one of low.all()) one.refused = 0;
  expect(counts.exchanges).toBe(3);
  expect(state()?.lent).toBeGreaterThan(0);
  clock.advance(1_000);
  await exchange();
  await exchange();
  expect(counts.exchanges).toBe(4);
});

test('the error and its bound are those of one limit', () => {
  const clock = fakeClock(START_MS);
  const error = createMeasuredError(clock);
  const report = { epochMs: START_MS, leftMs: 0, nowMs: START_MS, demand: 0, room: 0, given: [], taken: [] };
  error.note(siteShareOf(100), { ...report, used: 20 }, 100);
  error.note(siteShareOf(100, 60_000, { maxErrorPercent: 50 }), { ...report, used: 0 }, 100);
  expect([error.ratio, error.bound]).toEqual([0.2, 0]);
});
