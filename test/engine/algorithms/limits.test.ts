import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { namedAlgorithms } from '../../../src/engine/holds/limits.ts';
import { anyAnchoredLimit, anyLimitOf } from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';
import { rulesFrom } from '../../helpers/rules.ts';

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
  const own: { readonly [key: string]: unknown } = { ...limit }; // which of these exist depends on the algorithm
  const { anchor, timezone, countDenied: count_denied, rounding, buckets, burst, refill, maxDelayMs } = own;
  const alignment = anchor === undefined ? own.alignment : { anchor, timezone };
  const max_delay = maxDelayMs === undefined ? undefined : `${maxDelayMs}ms`;
  if (algorithm === 'in_flight') return JSON.stringify({ ...common, ttl: window });
  if (algorithm === 'allocation') return JSON.stringify(common);
  return JSON.stringify({ ...common, window, alignment, count_denied, rounding, buckets, burst, refill, max_delay });
}

test.each<readonly [name: string, anyLimit: fc.Arbitrary<Limit>]>([
  ...namedAlgorithms.map((name) => [name, anyLimitOf[name]] as const),
  ['windows that begin with a date', anyAnchoredLimit],
])('the limits of %s that these tests use are valid in rules', (_, anyLimit) => {
  fc.assert(
    fc.property(anyLimit, (limit) => {
      const [rule] = rulesFrom(`domain: d\ndescriptors: [{ key: k, rate_limit: ${written(limit)} }]`).rules;
      expect(JSON.parse(JSON.stringify(rule?.limits[0]?.limit))).toMatchObject(JSON.parse(JSON.stringify(limit)));
    }),
    { numRuns: 100 },
  );
});
