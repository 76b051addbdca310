import type { Limit } from '../../src/algorithms/index.ts';
import { namedAlgorithms } from '../../src/algorithms/index.ts';
import { unitMs } from '../../src/algorithms/limit.ts';
import { anyLimitOf } from '../helpers/limits.ts';
import fc from '../helpers/property.ts';
import { rulesFrom } from '../helpers/rules.ts';

/** A limit as a rule file states it. */
function written(limit: Limit): string {
  const { algorithm, requestsPerUnit: requests_per_unit, windowMs, soft } = limit;
  const common = { algorithm, requests_per_unit, soft };
  const window = `${windowMs}ms`;
  const calendar = 'alignment' in limit && typeof limit.alignment !== 'string';
  if (calendar) {
    const unit = Object.entries(unitMs).find(([, ms]) => ms === windowMs)?.[0];
    return JSON.stringify({ ...common, unit, alignment: 'calendar', timezone: limit.counter.split('@')[1] });
  }
  const own: { readonly [key: string]: unknown } = { ...limit }; // whatever its algorithm has of these
  const { alignment, countDenied: count_denied, rounding, buckets, burst, refill, maxDelayMs } = own;
  const max_delay = maxDelayMs === undefined ? undefined : `${maxDelayMs}ms`;
  if (algorithm === 'in_flight') return JSON.stringify({ ...common, ttl: window });
  return JSON.stringify({ ...common, window, alignment, count_denied, rounding, buckets, burst, refill, max_delay });
}

test.each(namedAlgorithms)('the limits of %s that these tests go by are such as rules may have', (name) => {
  const anyLimit: fc.Arbitrary<Limit> = anyLimitOf[name];
  fc.assert(
    fc.property(anyLimit, (limit) => {
      const [rule] = rulesFrom(`domain: d\ndescriptors: [{ key: k, rate_limit: ${written(limit)} }]`).rules;
      expect(JSON.parse(JSON.stringify(rule?.limits[0]?.limit))).toMatchObject(JSON.parse(JSON.stringify(limit)));
    }),
    { numRuns: 100 },
  );
});
