import { RequestWork } from '../../../../src/base/request-work.ts';
import { match } from '../../../../src/engine/rules/match/match.ts';
import { bucketStrategy } from '../../../../src/engine/rules/match/strategy.ts';
import { findBucket } from '../../../../src/parts/quotas/find-bucket.ts';
import { anyRequest, anyRules } from '../../../helpers/explained.ts';
import { almostMatching, MAX_MATCH_UNITS, patternRules } from '../../../helpers/patterns.ts';
import fc from '../../../helpers/property.ts';
import { rulesFrom } from '../../../helpers/rules.ts';

const strategyFor = (limit: string) => {
  const [rule] = rulesFrom(`domain: d\ndescriptors: [{ key: a, ${limit} }]`).rules;
  if (!rule) throw new Error('there is no rule');
  return bucketStrategy(rule);
};

test.each([
  ['rate_limit: { unit: second, requests_per_unit: 100 }', { units: 1_100, fillMs: 11_000, burst: 100 }],
  ['rate_limit: { unit: second, requests_per_unit: 5000 }', { units: 5_000, fillMs: 1_000, burst: 5_000 }],
  ['rate_limit: { unit: day, requests_per_unit: 1 }', { units: 1_024, fillMs: 88_473_600_000, burst: 1 }],
  [
    'rate_limit: { unit: minute, requests_per_unit: 6000, algorithm: token_bucket, burst: 40 }',
    { units: 6_000, fillMs: 60_000, burst: 40 },
  ],
  [
    'rate_limit: { unit: minute, requests_per_unit: 2000, algorithm: sliding_window_counter }',
    { units: 2_000, fillMs: 60_000, burst: 200 },
  ],
  [
    'rate_limit: { unit: second, requests_per_unit: 2000, algorithm: leaky_bucket, burst: 7 }',
    { units: 2_000, fillMs: 1_000, burst: 7 },
  ],
])('a rule with %s becomes a rate and a burst', (limit, pool) => {
  expect(strategyFor(limit)).toEqual({ kind: 'shared', pool });
});

test.each([
  ['rate_limit: { unlimited: true }', 'allow'],
  ['shadow_mode: true, rate_limit: { unit: second, requests_per_unit: 1 }', 'allow'],
  ['rate_limit: { unit: second, requests_per_unit: 0 }', 'deny'],
])('a rule with %s becomes a blanket rule: %s', (limit, kind) => {
  expect(strategyFor(limit)).toEqual({ kind });
});

test.each([
  ['rate_limit: { unit: second, requests_per_unit: 1, algorithm: token_bucket, max_delay: 1s }', 'max_delay'],
  ['rate_limit: { unit: day, requests_per_unit: 1, alignment: calendar }', 'alignment: calendar'],
  ['rate_limit: { requests_per_unit: 1, algorithm: in_flight, ttl: 9s }', 'in_flight'],
  ['rate_limit: { unit: day, requests_per_unit: 1, active: { days: sun } }', 'active, schedule'],
  ['rate_limit: { unit: second, requests_per_unit: 1, soft: 1 }', 'soft'],
  ['not_counted: hold, rate_limit: { unit: second, requests_per_unit: 1, reserve: { ttl: 9s } }', 'reserve'],
  ['quota_mode: true, rate_limit: { unit: second, requests_per_unit: 1 }', 'quota_mode'],
  ['rate_limit: { unit: second, requests_per_unit: 1, charge: always }', 'charge: always'],
  [
    'rate_limits: [{ unit: second, requests_per_unit: 1 }, { unit: day, requests_per_unit: 9 }]',
    'a bucket has one limit',
  ],
])('a rule with %s cannot be applied by a proxy: %s', (limit, reason) => {
  expect(strategyFor(limit)).toEqual({ kind: 'unsupported', reason: expect.stringContaining(reason) });
});

const RULES = rulesFrom(`
domain: edge
descriptors:
  - key: user
    rate_limit: { unit: second, requests_per_unit: 10 }
    descriptors: [{ key: path, rate_limit: { unit: second, requests_per_unit: 2 } }]
  - key: path
    value: /login*
    share_threshold: true
    rate_limit: { unit: second, requests_per_unit: 5 }
`);

const find = (bucket: Readonly<Record<string, string>>) =>
  findBucket(
    RULES,
    { domain: 'edge', pairs: Object.entries(bucket).map(([key, value]) => ({ key, value })) },
    new RequestWork(),
  );

test('a bucket finds its rule for any order of its pairs', () => {
  expect(find({ path: '/', user: 'ann' })?.rule.path).toBe('edge.user.path');
  expect(find({ user: 'ann', path: '/' })?.entries.map(({ key }) => key)).toEqual(['user', 'path']);
  expect(find({ user: 'ann' })?.rule.path).toBe('edge.user');
  expect(find({ tenant: 'x', user: 'ann' })).toBeUndefined();
});

test('buckets whose values share a counter share a pool', () => {
  expect(find({ path: '/login/a' })?.entries).toEqual(find({ path: '/login/b' })?.entries);
});

test('a bucket with the entries of a descriptor that matches a rule finds a rule', () => {
  fc.assert(
    fc.property(anyRules, anyRequest, (rules, { domain, descriptors }) => {
      for (const { entries } of descriptors) {
        if (new Set(entries.map(({ key }) => key)).size < entries.length || entries.length > 4) continue;
        const found = match(rules, domain, { entries, requestLimit: undefined });
        if (found.kind !== 'limited') continue;
        expect(findBucket(rules, { domain, pairs: entries }, new RequestWork())).toBeDefined();
      }
    }),
    { numRuns: 150 },
  );
});

test('a bucket whose texts are too long for the patterns finds no rule, with a bounded amount of work', () => {
  const rules = rulesFrom(`domain: edge\ndescriptors:\n${patternRules(100)}`);
  const others = Array.from({ length: 15 }, (_, at) => ({ key: `other${at}`, value: '' }));
  const unitsOf = (value: string): number => {
    const work = new RequestWork();
    expect(findBucket(rules, { domain: 'edge', pairs: [{ key: 'path', value }, ...others] }, work)).toBeUndefined();
    return work.units;
  };
  expect(unitsOf(almostMatching(100))).toBeGreaterThan(99);
  expect(unitsOf(almostMatching(1_000))).toBeLessThanOrEqual(MAX_MATCH_UNITS);
  expect(
    findBucket(rules, { domain: 'edge', pairs: [{ key: 'path', value: '/v7/' }] }, new RequestWork()),
  ).toBeDefined();
});
