import '../../helpers/realm.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { load } from 'js-yaml';
import { match } from '../../../src/engine/rules/match/match.ts';
import { envoyConfiguration } from '../../../src/parts/envoy/configuration.ts';
import { gatewayPolicy } from '../../../src/parts/envoy/gateway-policy.ts';
import { canMatch, expectedShapes, servesRequirement } from '../../../src/parts/envoy/shapes.ts';
import { headerName } from '../../../src/parts/envoy/whole-envoy.ts';
import { anyRequest, anyRules } from '../../helpers/explained.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));

test("a descriptor that matches a rule has one of the rule's shapes", () => {
  fc.assert(
    fc.property(anyRules, anyRequest, (rules, { domain, descriptors }) => {
      for (const { entries } of descriptors) {
        const shape = entries.map(({ key, value }, at) => ({ key, value: at % 2 === 0 ? value : undefined }));
        if ('rule' in match(rules, domain, { entries, requestLimit: undefined }))
          expect(canMatch(rules, domain, shape)).toBe(true);
        const exact = entries.map(({ key, value }) => ({ key, value }));
        expect(canMatch(rules, domain, exact)).toBe(
          'rule' in match(rules, domain, { entries, requestLimit: undefined }),
        );
      }
      for (const shape of expectedShapes(rules, 'd').shapes)
        expect(canMatch(rules, 'd', shape) || servesRequirement(rules, 'd', shape)).toBe(true);
    }),
    { seed: 6, numRuns: 1_000 },
  );
});

test("a descriptor that commits a request's usage is not sent when the request begins", () => {
  const rules = rulesFrom(readFileSync(join(PROJECT, 'config/examples/llm-tokens.yaml'), 'utf8'));
  const { shapes, commits } = expectedShapes(rules, 'llm');
  expect(shapes.map((shape) => shape.map(({ key }) => key))).toEqual([['tenant', 'request_id']]);
  expect(commits.map((shape) => shape.map(({ key }) => key))).toEqual([['tenant', 'request_id', 'used']]);
  for (const kind of ['envoy', 'istio'] as const) {
    const options = { kind, host: 'weir', port: 8081, timeoutMs: 20 };
    expect(envoyConfiguration(rules, 'llm', options)).toContain('# Send tenant, request_id, used when the stream ends');
  }
});

test('a policy for Envoy Gateway has a rule for each limit, and comments for limits that it cannot express', () => {
  const rules = rulesFrom(`
domain: shop
descriptors:
  - { key: path, value: /login, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: path, value: '/api/v1.0/*', rate_limit: { unit: second, requests_per_unit: 50 } }
  - key: user
    descriptors:
      - { key: remote_address, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 9 } }
      - { key: remote_address, value: 10.0.0.7, rate_limit: { unlimited: true } }
  - { key: remote_address, value: 2001:db8::1, rate_limit: { unit: hour, requests_per_unit: 1, algorithm: token_bucket } }
  - { key: masked_remote_address, value: 10.0.0.0/8, rate_limit: { unit: week, requests_per_unit: 7 } }
  - { key: tenant, rate_limit: { unit: second, unit_multiplier: 30, requests_per_unit: 3 } }
  - { key: generic_key, value: slow, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: remote_address, addresses: 192.0.2.0/24, rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: remote_address, addresses: 192.0.2.1, share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - { key: remote_address, addresses: [10.0.0.0/8, "fd00::/8"], rate_limit: { unit: hour, requests_per_unit: 4 } }
`);
  const printed = gatewayPolicy(rules, 'shop');
  const { spec } = load(printed) as { spec: { rateLimit: { global: { rules: unknown } } } };
  expect(spec.rateLimit.global.rules).toEqual([
    {
      clientSelectors: [{ headers: [{ type: 'Exact', name: ':path', value: '/login' }] }],
      limit: { requests: 5, unit: 'Minute' },
    },
    {
      clientSelectors: [{ headers: [{ type: 'RegularExpression', name: ':path', value: '/api/v1\\.0/.*' }] }],
      limit: { requests: 50, unit: 'Second' },
    },
    {
      clientSelectors: [
        {
          headers: [{ type: 'Distinct', name: 'x-user' }],
          sourceCIDR: { type: 'Distinct', value: '0.0.0.0/0' },
        },
      ],
      limit: { requests: 9, unit: 'Day' },
      shadowMode: true,
    },
    {
      clientSelectors: [
        { headers: [{ type: 'Distinct', name: 'x-user' }], sourceCIDR: { type: 'Distinct', value: '::/0' } },
      ],
      limit: { requests: 9, unit: 'Day' },
      shadowMode: true,
    },
    {
      clientSelectors: [{ sourceCIDR: { type: 'Exact', value: '2001:db8::1/128' } }],
      limit: { requests: 1, unit: 'Hour' },
    },
    {
      clientSelectors: [{ sourceCIDR: { type: 'Distinct', value: '192.0.2.0/24' } }],
      limit: { requests: 2, unit: 'Hour' },
    },
    {
      clientSelectors: [{ sourceCIDR: { type: 'Exact', value: '192.0.2.1/32' } }],
      limit: { requests: 3, unit: 'Hour' },
    },
    {
      clientSelectors: [{ sourceCIDR: { type: 'Exact', value: '10.0.0.0/8' } }],
      limit: { requests: 7, unit: 'Week' },
    },
  ]);
  expect(printed.split('\n').filter((line) => line.startsWith('#'))).toEqual([
    expect.stringMatching(/^# shop\.user\.remote_address_10\.0\.0\.7 is left out: .*needs a limit/),
    expect.stringMatching(/^# shop\.remote_address_2001:db8::1 becomes a fixed window/),
    expect.stringMatching(/^# shop\.remote_address_10\.0\.0\.0\/8 is left out: .*are not one network/),
    expect.stringMatching(/^# shop\.tenant is left out: its window/),
    expect.stringMatching(/^# shop\.generic_key_slow is left out: .*no selector/),
    '# The path /login is compared with its query: requests with another query are not counted.',
  ]);
});

test('a policy names the rules that Envoy Gateway merges, and those that no service accepts', () => {
  const policy = (descriptors: string) =>
    gatewayPolicy(rulesFrom(`domain: d\ndescriptors:\n${descriptors}`), 'd')
      .split('\n')
      .filter((line) => line.startsWith('#'));
  const limit = 'rate_limit: { unit: minute, requests_per_unit: 4 }';
  const limits = 'rate_limits: [{ unit: minute, requests_per_unit: 4 }, { unit: day, requests_per_unit: 6 }]';
  expect(policy(`  - { key: remote_address, addresses: 10.0.0.0/8, ${limits} }`)).toEqual([
    '# Envoy Gateway merges the 2 limits of 10.0.0.0/8 to one, which counts twice: keep one.',
  ]);
  const [each, all] = ['remote_address, addresses: 10.0.0.0/8', 'masked_remote_address, value: 10.0.0.0/8'];
  expect(policy(`  - { key: ${each}, ${limit} }\n  - { key: ${all}, ${limit} }`)).toEqual([
    '# Distinct and Exact of 10.0.0.0/8 have one key in the rules of Envoy Gateway, which no service accepts: keep one.',
  ]);
  expect(policy(`  - { key: remote_address, value: 10.0.0.0/8, ${limit} }`)).toEqual([
    expect.stringContaining("'10.0.0.0/8' is no address: write a network under addresses"),
  ]);
});

test('the descriptors that a proxy must send, and keys that it cannot send, are found from rules', () => {
  const rules = rulesFrom(`
domain: demo
descriptors:
  - key: generic_key
    value: login
    descriptors:
      - key: remote_address
        rate_limit: { unit: minute, requests_per_unit: 2 }
  - { key: 'x*', rate_limit: { unit: minute, requests_per_unit: 2 } }
  - key: generic_key
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 2 } }]
`);
  expect(expectedShapes(rules, 'demo')).toEqual({
    shapes: [
      [
        { key: 'generic_key', value: 'login' },
        { key: 'remote_address', value: undefined },
      ],
    ],
    slots: [],
    adaptive: [],
    reports: [],
    unknown: ['demo.generic_key', 'demo.generic_key.user', 'demo.x*'],
    commits: [],
  });
});

test.each([
  ['user', 'x-user'],
  ['api_key', 'x-api-key'],
  ['x-api-key', 'x-api-key'],
  ['X-Tenant', 'x-tenant'],
  ['path', ':path'],
  [':path', ':path'],
  [':authority', ':authority'],
  ['user_agent', 'user-agent'],
])('the values of the key %s are those of the header %s', (key, header) => expect(headerName(key)).toBe(header));

test('a configuration sends the keys of a node, and of its limit, with every request that passes the node', () => {
  const rules = rulesFrom(`domain: d
descriptors:
  - key: generic_key
    value: pay
    require: { keys: [user], per: [remote_address], limit: { unit: day, requests_per_unit: 1 } }
`);
  expect(expectedShapes(rules, 'd').shapes.map((shape) => shape.map(({ key, value }) => value ?? key).join())).toEqual([
    ...['pay', 'pay,remote_address'],
    'user',
  ]);
});
