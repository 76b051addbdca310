import type { State } from '../../../src/engine/algorithms/limit.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { noPeerCounts } from '../../../src/operate/observe/site-counts.ts';
import { Lender } from '../../../src/parts/sites/lender.ts';
import type { SiteAsk } from '../../../src/parts/sites/messages.ts';
import { siteShare } from '../../../src/parts/sites/site-share.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { ownLimitsOf, siteShareOf } from '../../helpers/limits.ts';

const START_MS = 1_700_000_040_000; // the start of a minute
const SITES = ['east', 'west'];
const limit = siteShareOf(100, 60_000, { site: 1 });
const KEY = `${limit.counter}|1:d|1:k|1:v` as CounterKey; // like a key that the rules make

const ask: SiteAsk = {
  ...{ counter: KEY, algorithm: 'fixed_window', requests_per_unit: 100, window_ms: 60_000, burst: 100 },
  ...{ epoch_ms: START_MS, taken: 0, hits: 20 },
};

/** The second of two sites, which has used up its part. */
function spentSite() {
  const clock = fakeClock(START_MS);
  const backend = createMemoryBackend(clock, { maxCounters: 100 });
  const ledger = ledgerOf(backend, { clock, monotonicMs: clock, instance: 'west' });
  const peers = [{ site: 'east', place: 0, counts: noPeerCounts(), borrow: () => Promise.reject(new Error()) }];
  const lender = new Lender({
    ...{ ledger, timeoutMs: 1_000, monotonicMs: clock, prefix: '', peers, sites: SITES, lost: [] },
    limits: ownLimitsOf(limit),
  });
  const spend = async (hits: number) => {
    const [reply] = await ledger.debit([{ kind: 'spend', key: KEY, limit, hits, blocks: true, policy: {} }], {
      ...{ spend: 'each', timeoutMs: 1 },
    });
    return reply?.code;
  };
  const lend = async (...asks: readonly SiteAsk[]) => (await lender.lend({ site: 'east', sites: SITES, asks })).loans;
  return { backend, spend, lend };
}

test.each([
  ['another window', { window_ms: 1, epoch_ms: 0, hits: 0 }],
  ['a window beyond any time', { window_ms: 2 ** 60 }],
  ['another algorithm', { algorithm: 'token_bucket' }],
  ['an algorithm that is not shared', { algorithm: 'leaky_bucket' }],
  ['another limit', { requests_per_unit: 1_000_000 }],
  ['another burst', { burst: 1_000_000 }],
  ['the name of another window', { counter: KEY.replace('60000', '1'), window_ms: 1, epoch_ms: START_MS }],
  ['an epoch beyond any time', { epoch_ms: 2 ** 60 }],
  ['more hits than can be counted', { hits: 2 ** 63 }],
  ['more taken than can be counted', { taken: 2 ** 63 }],
  ['a key that no counter has', { counter: `${KEY}${'v'.repeat(2_000)}` }],
  ['another epoch', { epoch_ms: START_MS - 60_000 }],
])('a request with %s is refused, and does not change the counter', async (_, forged) => {
  const { backend, spend, lend } = spentSite();
  expect(await spend(50)).toBe('OK');
  const before = backend.readState(KEY);
  expect(await lend({ ...ask, ...forged })).toMatchObject([{ is_lent: false }]);
  expect(backend.readState(KEY)).toEqual(before);
  expect(await spend(1)).toBe('OVER_LIMIT');
});

test('a refused request does not affect others of the same message', async () => {
  const { lend } = spentSite();
  const loans = await lend({ ...ask, window_ms: 2 ** 60 }, ask);
  expect(loans).toMatchObject([{ is_lent: false }, { is_lent: true, given: 20 }]);
});

test('a transfer of another epoch does not change the state', () => {
  const spent = siteShare.step(limit, undefined, START_MS, 50, true).state;
  const transfer = { kind: 'lend', peer: 0, epochMs: 0, taken: 0, among: 1 } as const;
  const { accepted, state } = siteShare.step({ ...limit, windowMs: 1 }, spent, START_MS + 10, 0, true, { transfer });
  expect({ accepted, state }).toEqual({ accepted: false, state: spent });
});

test.each(['fixed_window', 'token_bucket'] as const)('a %s that is lost counts its lent hits again', (of) => {
  const shared = siteShareOf(100, 60_000, { of, site: 1 });
  const lendAt = (state: State | undefined, taken: number, hits = 0) => {
    const transfer = { kind: 'lend', peer: 0, epochMs: START_MS, taken, among: 1 } as const;
    const { state: after } = siteShare.step(shared, state, START_MS, hits, true, { transfer });
    const outcome = { hits, accepted: true, charged: true };
    return { after, site: siteShare.describe(shared, after, START_MS, outcome, { transfer }).site };
  };
  const { after, site } = lendAt(undefined, 40, 20);
  expect(site).toMatchObject({ given: [46, 0], room: 4 }); // 40, and 6 that it does not keep
  expect(lendAt(after, 40).site).toMatchObject({ given: [46, 0], room: 4 });
  const spent = siteShare.step(shared, undefined, START_MS, 30, true).state;
  expect(lendAt(spent, 1_000).site).toMatchObject({ given: [20, 0], room: 0 }); // never more than it has
});
