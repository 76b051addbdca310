import { describeRule } from '../../../src/edge/listing/describe.ts';
import { describeLimit } from '../../../src/engine/rules/match/describe-limit.ts';
import { rulesFrom } from '../../helpers/rules.ts';

/** The listed rules of these nodes. */
const listed = (...nodes: readonly string[]): readonly string[] =>
  [
    ...rulesFrom(`domain: d\ndescriptors:\n${nodes.map((node, at) => `- {key: k${at}, ${node}}\n`).join('')}`).rules,
  ].flatMap((rule) => describeRule(rule).split('\n'));

const ORDINARY = 'shadow_mode: false, quota_mode: false';

test('limits of envoyproxy/ratelimit are listed in its format', () => {
  expect(
    listed(
      'rate_limit: {unit: minute, requests_per_unit: 3}',
      'shadow_mode: true, quota_mode: true, rate_limit: {unit: week, name: x}',
      'rate_limit: {unlimited: true}',
      'value: "a*", rate_limit: {unit: second, requests_per_unit: 1}',
    ),
  ).toEqual([
    `d.k0: unit=MINUTE requests_per_unit=3, ${ORDINARY}`,
    'd.k1: unit=WEEK requests_per_unit=0, shadow_mode: true, quota_mode: true',
    `d.k2: unit=UNKNOWN requests_per_unit=0, ${ORDINARY}`,
    `d.k3_a*: unit=SECOND requests_per_unit=1, ${ORDINARY}`,
  ]);
});

test.each([
  ['window: 1500ms, requests_per_unit: 2', 'UNKNOWN', 'window: 1500ms'],
  ['unit: second, unit_multiplier: 30, soft: 4, requests_per_unit: 2', 'SECOND', 'unit_multiplier: 30, soft: 4'],
  ['unit: day, alignment: first_hit, requests_per_unit: 2', 'DAY', 'alignment: first_hit'],
  [
    'unit: day, alignment: calendar, timezone: Europe/Berlin, requests_per_unit: 2',
    'DAY',
    'alignment: calendar, timezone: Europe/Berlin',
  ],
  [
    'algorithm: sliding_window_log, unit: day, count_denied: true, requests_per_unit: 2',
    'DAY',
    'algorithm: sliding_window_log, count_denied: true',
  ],
  [
    'algorithm: sliding_window_counter, unit: day, rounding: up, requests_per_unit: 2',
    'DAY',
    'algorithm: sliding_window_counter, rounding: up',
  ],
  [
    'algorithm: sliding_window_buckets, unit: day, buckets: 12, requests_per_unit: 2',
    'DAY',
    'algorithm: sliding_window_buckets, buckets: 12',
  ],
  ['algorithm: token_bucket, unit: day, requests_per_unit: 2', 'DAY', 'algorithm: token_bucket, burst: 2'],
  [
    'algorithm: token_bucket, unit: day, burst: 9, refill: interval, requests_per_unit: 2',
    'DAY',
    'algorithm: token_bucket, burst: 9, refill: interval',
  ],
  [
    'algorithm: leaky_bucket, unit: day, max_delay: 2s, requests_per_unit: 2',
    'DAY',
    'algorithm: leaky_bucket, burst: 1, max_delay: 2000ms',
  ],
])('features beyond envoyproxy/ratelimit are appended: %s', (limit, unit, more) => {
  expect(listed(`rate_limit: {${limit}}`)).toEqual([`d.k0: unit=${unit} requests_per_unit=2, ${ORDINARY}, ${more}`]);
});

test('each of several limits of a rule has its own line', () => {
  expect(listed('rate_limits: [{unit: second, requests_per_unit: 1}, {unit: day, requests_per_unit: 9}]')).toEqual([
    `d.k0: unit=SECOND requests_per_unit=1, ${ORDINARY}`,
    `d.k0: unit=DAY requests_per_unit=9, ${ORDINARY}`,
  ]);
});

test.each([
  ['unit: minute', '2 per minute'],
  ['unit: second, unit_multiplier: 30', '2 per 30 seconds'],
  ['window: 1500ms', '2 per 1500 ms'],
  ['unit: day, algorithm: token_bucket', '2 per day by token_bucket'],
])('a limit has a short form: %s', (limit, expected) => {
  const [rule] = rulesFrom(`domain: d\ndescriptors: [{key: k, rate_limit: {${limit}, requests_per_unit: 2}}]`).rules;
  expect(rule?.limits.map(describeLimit)).toEqual([expected]);
});

test('a listed child of a shared limit has its part of it', () => {
  const rules = rulesFrom(`
domain: demo
descriptors:
  - key: api
    rate_limit: { unit: minute, requests_per_unit: 10, share: { by: tenant } }
    descriptors: [{ key: tenant, value: acme, share: { reserve: 2, weight: 3, ceiling: 5, priority: sheddable } }]
`);
  const lines = [...rules.rules].map(describeRule);
  expect(lines.join('\n')).toContain('share: { reserve: 2, weight: 3, ceiling: 5, priority: 60 }');
});
