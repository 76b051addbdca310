import '../../helpers/realm.ts';
import { ruleAsJson } from '../../../src/edge/listing/describe.ts';
import { describeLimit } from '../../../src/engine/rules/match/describe-limit.ts';
import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import { loadText } from '../../helpers/rules.ts';

const load = (limit: string, count: number | undefined = undefined) =>
  loadText(`domain: d\ndescriptors: [{ key: a, rate_limit: { unit: second, ${limit} } }]\n`, {
    replicas: ({ kind, name }) => (kind === 'dns' && name === 'shop.svc' ? count : undefined),
  });

const REPLICAS = 'per_replica: 100, replicas: { dns: shop.svc, min: 2, max: 10 }';

test.each([
  ['unknown', undefined, 200],
  ['0', 0, 200],
  ['5', 5, 500],
  ['more than max', 50, 1_000],
])('with %s replicas, the limit is what each may get, times their number', (_, count, expected) => {
  const loaded = load(REPLICAS, count);
  const [rule] = loaded.ok ? [...loaded.rules.rules] : [];
  const [limit] = rule?.limits ?? [];
  expect(limit?.limit.requestsPerUnit).toBe(expected);
  expect(limit && describeLimit(limit)).toBe(`${expected} per second (100 for each of ${expected / 100} replicas)`);
  expect(rule && ruleAsJson(rule).limits[0]).toMatchObject({ per_replica: 100, replicas: expected / 100 });
});

test('the bucket of a limit grows with the replicas', () => {
  const loaded = load(`algorithm: token_bucket, ${REPLICAS}`, 5);
  const [rule] = loaded.ok ? [...loaded.rules.rules] : [];
  expect(rule?.limits[0]?.limit).toMatchObject({ requestsPerUnit: 500, burst: 500 });
});

test.each([
  ['algorithm: in_flight, ttl: 30s', '500 in flight for up to 30 s (100 for each of 5 replicas)'],
  ['algorithm: allocation', '500 until given back (100 for each of 5 replicas)'],
])('a limit with { %s } shows the replicas as well', (keys, words) => {
  const loaded = loadText(`domain: d\ndescriptors: [{ key: a, rate_limit: { ${keys}, ${REPLICAS} } }]\n`, {
    replicas: () => 5,
  });
  const [rule] = loaded.ok ? [...loaded.rules.rules] : [];
  expect(rule?.limits.map(describeLimit)).toEqual([words]);
  expect(rule && ruleAsJson(rule).limits[0]).toMatchObject({ per_replica: 100, replicas: 5 });
});

test('a schedule that names a number has no replicas', () => {
  const loaded = load(`${REPLICAS}, schedule: [{ active: { days: mon-sun }, requests_per_unit: 7 }]`, 5);
  const [rule] = loaded.ok ? [...loaded.rules.rules] : [];
  expect(rule?.limits.map(describeLimit)).toEqual(['500 per second (100 for each of 5 replicas)', '7 per second']);
});

test('an overlay replaces the number of replicas by a number, and the other way round', () => {
  const overlay = (limit: string) => [
    { name: 'overlay.yaml', text: `domain: d\ndescriptors: [{ key: a, rate_limit: { ${limit} } }]\n` },
  ];
  const rules = (limit: string, over: string) => {
    const loaded = loadText(`domain: d\ndescriptors: [{ key: a, rate_limit: { unit: second, ${limit} } }]\n`, {
      overlay: overlay(over),
    });
    return loaded.ok ? [...loaded.rules.rules].flatMap((rule) => rule.limits.map(describeLimit)) : loaded.problems;
  };
  expect(rules(REPLICAS, 'requests_per_unit: 7')).toEqual(['7 per second']);
  expect(rules('requests_per_unit: 7', REPLICAS)).toEqual(['200 per second (100 for each of 2 replicas)']);
});

test.each([
  ['per_replica: 5', 'per_replica: requires replicas: { dns: host } or { file: path }, got none'],
  [
    'requests_per_unit: 5, replicas: { dns: a }',
    'requests_per_unit: cannot be used with per_replica: remove one of them',
  ],
  ['replicas: { dns: a }', 'replicas: goes with per_replica, got none'],
  ['per_replica: 5, replicas: {}', 'replicas: must have either dns, a host name, or file, a path'],
  ['per_replica: 5, replicas: { dns: a, file: b }', 'replicas: must have either dns, a host name, or file, a path'],
  ['per_replica: 5, replicas: { dns: "a:80" }', "dns: must be a host name such as checkout.shop.svc, got 'a:80'"],
  ['per_replica: 5, replicas: { dns: a, min: 5, max: 3 }', 'max: must be 5 (min) to 100000, got 3'],
  ['per_replica: 5, burst: 5, replicas: { dns: a }', 'burst: cannot be used with per_replica: remove one of them'],
  [
    'per_replica: 5, on_change: reset, replicas: { dns: a }',
    'on_change: reset cannot be used with per_replica: replicas that come and go would reset counters',
  ],
  ['per_replica: 5, sites: {}, replicas: { dns: a }', 'sites: cannot be used with per_replica: remove one of them'],
  ['per_replica: 0, replicas: { dns: a }', 'per_replica: must be 1 to 9007199254740 for up to 1000 replicas, got 0'],
])('refuses %s', (written, message) => {
  const loaded = load(written);
  expect(loaded.ok ? [] : loaded.problems.map(formatProblem)).toContainEqual(expect.stringContaining(message));
});
