import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { isSameLimit } from '../../../src/engine/holds/limits.ts';
import { Lender } from '../../../src/parts/sites/lender.ts';
import { maxError, siteAdvance, siteBase, siteRate } from '../../../src/parts/sites/site-part.ts';
import { siteShare } from '../../../src/parts/sites/site-share.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { ownLimitsOf, siteShareOf } from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);

test('the parts of all sites add up to the limit, for any lost sites', () => {
  const sites = fc.integer({ min: 2, max: 8 }).chain((count) =>
    fc.record({
      places: fc.constant(Array.from({ length: count }, (_, place) => place)),
      lost: fc.uniqueArray(fc.nat({ max: count - 1 }), { maxLength: count - 1 }),
      requestsPerUnit: fc.integer({ min: 1, max: 1_000 }),
      maxErrorPercent: fc.integer({ min: 0, max: 50 }),
      of: fc.constantFrom('fixed_window', 'token_bucket'),
    }),
  );
  fc.assert(
    fc.property(sites, ({ places, lost, ...numbers }) => {
      const all = places.map((site) =>
        siteShareOf(numbers.requestsPerUnit, 60_000, { ...numbers, sites: places.length, site, lost }),
      );
      const [first] = all;
      const alive = all.filter(({ site }) => !lost.includes(site));
      expect(sumOf(all.map(siteBase))).toBe(numbers.requestsPerUnit);
      expect(sumOf(all.map(siteAdvance))).toBe(first && maxError(first));
      for (const place of lost) expect(all[place] && siteBase(all[place])).toBe(0);
      expect(sumOf(alive.map(siteRate))).toBeLessThanOrEqual(numbers.requestsPerUnit * places.length);
    }),
  );
});

test('a counter keeps its admitted hits when a site is lost', () => {
  const whole = siteShareOf(90, 60_000, { sites: 3 });
  const { state } = siteShare.step(whole, undefined, 0, 30, true);
  const lost = { ...whole, lost: [2] };
  expect(isSameLimit(whole, lost)).toBe(false);
  expect(whole.counter).toBe(lost.counter);
  expect(siteShare.step(whole, state, 10, 1, true).accepted).toBe(false);
  const { accepted, state: full } = siteShare.step(lost, state, 10, 15, true);
  expect(accepted).toBe(true);
  expect(siteShare.step(lost, full, 10, 1, true).accepted).toBe(false);
});

test('a site that another one has set as lost borrows nothing, and gets the reason', async () => {
  const limit = siteShareOf(90, 60_000, { sites: 3, site: 1, lost: [2] });
  const clock = fakeClock(0);
  const lender = new Lender({
    ...{ ledger: { debit: () => [] }, timeoutMs: 1, monotonicMs: clock, prefix: '', peers: [] },
    ...{ sites: ['a', 'b', 'c'], lost: ['c'], limits: ownLimitsOf(limit) },
  });
  const key = `${limit.counter}|1:d|1:k|1:v` as CounterKey; // like a key that the rules make
  const numbers = { algorithm: 'fixed_window', requests_per_unit: 90, window_ms: 60_000, burst: 90, epoch_ms: 0 };
  const asks = [{ counter: key, ...numbers, taken: 0, hits: 1 }];
  await expect(lender.lend({ site: 'c', sites: ['a', 'b', 'c'], asks })).rejects.toThrow(
    'SITE_LOST names c here: the other sites have its part',
  );
});
