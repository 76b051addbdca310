import { describeRule } from '../../../src/edge/listing/describe.ts';
import { groupByDomain } from '../../../src/engine/rules/compile/by-domain.ts';
import { compile } from '../../../src/engine/rules/compile/tree-builder.ts';
import { Problems } from '../../../src/engine/rules/read/problem.ts';
import { readText } from '../../../src/engine/rules/read/read.ts';
import { loadText } from '../../helpers/rules.ts';

const part = { sites: 3, site: 1 };
const split = { ...part, group: 'names' };

/** The limit of a rule with these keys at the second of three sites, or the problems. */
function limitOf(keys: string) {
  const problems = new Problems();
  const text = `domain: d\ndescriptors: [{ key: k, rate_limit: { ${keys} } }]`;
  const tree = compile(groupByDomain(readText('rules.yaml', text, problems), false, problems), split, problems);
  const [rule] = tree.rules;
  return problems.hasErrors ? problems.all.map(({ message }) => message) : rule;
}

test('a limit with sites is the part of this site, with its own counter name', () => {
  const rule = limitOf('unit: minute, requests_per_unit: 100, sites: { mode: escrow }');
  expect(rule).toMatchObject({
    limits: [
      {
        limit: {
          ...{ algorithm: 'site_share', of: 'fixed_window', requestsPerUnit: 100, maxErrorPercent: 0, ...part },
          counter: 'site_share|fixed_window|60000/3.names',
        },
      },
    ],
  });
});

test('rules are described as written, not by the part of the site', () => {
  const rule = limitOf('unit: second, requests_per_unit: 9, algorithm: token_bucket, burst: 30, sites: {}');
  if (!rule || Array.isArray(rule) || !('limits' in rule)) throw new Error('the rule is right');
  expect(describeRule(rule)).toContain('algorithm: token_bucket, burst: 30, sites: { mode: escrow }');
});

test.each([
  ['sites: { mode: eventual }', "must be escrow or optimistic, got 'eventual'"],
  ['sites: { mode: optimistic }', 'optimistic requires a max_error above 0% and up to 50%, such as 5%, got nothing'],
  ['sites: { mode: optimistic, max_error: 90% }', "must be above 0% and up to 50%, such as 5%, got '90%'"],
  ['sites: { max_error: 5% }', 'goes with mode: optimistic, not with escrow'],
  ['soft: 5, sites: {}', 'cannot be used with sites: remove one of them'],
  ['on_store_failure: local, sites: {}', 'cannot be used with sites: remove one of them'],
  [
    'alignment: first_hit, sites: {}',
    'requires fixed_window with alignment: epoch, or token_bucket with refill: continuous, whose hits can move between sites',
  ],
  ...['2026-11-27T00:00:30', '2026-11-27T00:00'].map((anchor) => [
    `alignment: { anchor: ${anchor} }, sites: {}`,
    'requires fixed_window with alignment: epoch, or token_bucket with refill: continuous, whose hits can move between sites',
  ]),
  ['algorithm: token_bucket, burst: 2, sites: {}', 'requires a burst of at least one token for each of 3 sites, got 2'],
  [
    'algorithm: sliding_window_log, sites: {}',
    'cannot be used with sliding_window_log, only with fixed_window or token_bucket',
  ],
])('%s is refused', (keys, message) => {
  expect(limitOf(`unit: minute, requests_per_unit: 100, ${keys}`)).toEqual([message]);
});

test('windows of less than a second cannot be shared', () => {
  expect(limitOf('window: 500ms, requests_per_unit: 100, sites: {}')).toEqual([
    'requires a window of at least 1s, got 500 ms',
  ]);
  expect(limitOf('unit: second, requests_per_unit: 100, sites: {}')).toMatchObject({ limits: [{}] });
});

test('a service without SITE refuses rules with sites', () => {
  const store = { name: 'memory', atomic: 'request', keepsEntries: true, leases: false, spend: 'each' } as const;
  const text = 'domain: d\ndescriptors: [{ key: k, rate_limit: { unit: minute, requests_per_unit: 5, sites: {} } }]';
  const loaded = loadText(text, { store });
  expect(loaded).toMatchObject({
    ok: false,
    problems: [{ line: 2, message: 'requires SITE and SITE_PEERS, which name the sites that share the limit' }],
  });
});
