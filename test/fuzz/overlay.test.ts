import '../helpers/realm.ts';
import type { RuleTree } from '../../src/engine/rules/match/tree.ts';
import type { LoadedRules } from '../../src/engine/rules/reload/load.ts';
import fc from '../helpers/property.ts';
import { loadText } from '../helpers/rules.ts';
import { anyMutated } from './mutations.ts';

/** @param overlay  absent: no overlay */
const load = (rules: string, overlay?: string): LoadedRules =>
  loadText(rules, overlay === undefined ? {} : { overlay: [{ name: 'overlay.yaml', text: overlay }] });

const RULES = `
domain: demo
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: user, value: alice, rate_limit: { window: 30s, requests_per_unit: 7, algorithm: token_bucket, burst: 9 } }
  - key: path
    value: /login*
    rate_limits: [{ unit: second, requests_per_unit: 1 }, { unit: day, requests_per_unit: 50, soft: 2 }]
    descriptors:
      - { key: user, rate_limit: { unlimited: true } }
      - { key: address, shadow_mode: true, rate_limit: { name: a, unit: hour, requests_per_unit: 3 } }
`;

const overlays = [
  'domain: demo\nspend: spare_others\ndescriptors:\n- { key: user, rate_limit: { algorithm: token_bucket, burst: 20 } }\n',
  'domain: demo\ndescriptors:\n- { key: user, value: alice, rate_limit: { algorithm: leaky_bucket, max_delay: 1s }, shadow_mode: true }\n',
  'domain: demo\ndescriptors:\n- { key: path, value: /login*, rate_limits: [{}, { soft: 3 }], descriptors: [{ key: user, rate_limit: { soft: 1 } }, { key: address, metadata: { a: 1 } }] }\n',
  'domain: demo\ndescriptors:\n- { key: path, value: /login*, descriptors: [{ key: address, rate_limit: { name: b, on_store_failure: local, local_share: 2 } }] }\n',
];

const pieces = [
  ': ',
  '- ',
  '{',
  '}',
  'key: ',
  'value: ',
  'user',
  'unit: day',
  'window: 1s',
  'unlimited: true',
  'buckets: 5',
  'replaces: []',
  '~',
];

/** The paths of the rules, with the rate of each limit. */
const ratesOf = ({ rules }: RuleTree): readonly string[] =>
  [...rules].map(({ path, limits, unlimited }) =>
    [
      path,
      unlimited,
      ...limits.map(({ limit: { requestsPerUnit, windowMs } }) => `${requestsPerUnit} per ${windowMs} ms`),
    ].join(' '),
  );

test('an overlay changes no rate unless it sets requests_per_unit, and adds and removes no rule', () => {
  const plain = load(RULES);
  const rates = plain.ok ? ratesOf(plain.rules) : [];
  let laid = 0;
  fc.assert(
    fc.property(anyMutated(overlays, pieces), (overlay) => {
      if (overlay.includes('requests_per_unit')) return;
      const loaded = load(RULES, overlay);
      if (!loaded.ok) return expect(loaded.problems.filter(({ file }) => file !== 'overlay.yaml')).toEqual([]);
      if ([...loaded.rules.rules].some((rule) => rule.overlaid)) laid++;
      expect(ratesOf(loaded.rules)).toEqual(rates);
    }),
    { numRuns: 300 },
  );
  expect(laid).toBeGreaterThan(8);
});
