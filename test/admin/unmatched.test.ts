import '../helpers/realm.ts';
import { SAMPLED } from '../../src/admin/sample.ts';
import { describeUnmatched, Unmatched } from '../../src/admin/unmatched.ts';
import { rulesFrom } from '../helpers/rules.ts';

/** Configurations that users could not make work, as they reported them: what the rules had, and what the proxy sent. */
const reported: readonly (readonly [
  report: string,
  rules: string,
  domain: string,
  sent: readonly string[],
  found: object,
])[] = [
  [
    'istio/istio#50591: the rules ask for a header above the path that the proxy does not send',
    '{domain: api-ratelimit, descriptors: [{key: ratelimitheader, descriptors: [{key: PATH, value: /api/CustomerControllers, rate_limit: {unit: minute, requests_per_unit: 1}}]}]}',
    'api-ratelimit',
    ['PATH=/api/CustomerControllers'],
    { reason: 'no_such_key', level: 1 },
  ],
  [
    'envoyproxy/ratelimit#435: a nested node has the service as its key instead of its value',
    '{domain: productpage-ratelimit, descriptors: [{key: CLIENT, value: CLIENT1, descriptors: [{key: svc2, value: ssm, rate_limit: {unit: minute, requests_per_unit: 5}}]}]}',
    'productpage-ratelimit',
    ['CLIENT=CLIENT1', 'SVC=svc2'],
    { reason: 'no_such_key', level: 2, nearest: [{ rule: 'productpage-ratelimit.CLIENT_CLIENT1.svc2_ssm' }] },
  ],
  [
    'istio/istio#32381: the filter names another domain than the rules',
    '{domain: productpage-ratelimit, descriptors: [{key: PATH, value: /productpage, rate_limit: {unit: minute, requests_per_unit: 1}}]}',
    'productpage-ratelimit.bookinfo',
    ['PATH=/productpage'],
    { reason: 'no_domain', level: 0, why: expect.stringContaining("the nearest is 'productpage-ratelimit'") },
  ],
  [
    'a key in other capitals',
    '{domain: d, descriptors: [{key: PATH, value: /productpage, rate_limit: {unit: minute, requests_per_unit: 1}}]}',
    'd',
    ['path=/productpage'],
    { reason: 'no_such_key', why: expect.stringContaining('d.PATH_/productpage') },
  ],
  [
    'a path with its query, where the rule has the path alone',
    '{domain: d, descriptors: [{key: PATH, value: /api, rate_limit: {unit: minute, requests_per_unit: 1}}]}',
    'd',
    ['PATH=/api?page=2'],
    { reason: 'value_differs', nearest: [{ rule: 'd.PATH_/api' }] },
  ],
];

test.each(reported)('%s: it is listed with the reason and the nearest rule', async (_, yaml, domain, sent, found) => {
  const rules = rulesFrom(yaml);
  const unmatched = new Unmatched(() => rules);
  const entries = sent.map((text) => ({ key: text.split('=')[0] ?? '', value: text.slice(text.indexOf('=') + 1) }));
  const kind = rules.domains.has(domain) ? 'no_rule' : 'no_domain';
  const answer = { overallCode: 'OK', verdicts: [{ kind }], shadowed: false, delayMs: 0 } as const;
  for (let requests = 0; requests < 6; requests++) unmatched.answered(domain, [{ entries }], answer);
  const { list, counts } = unmatched.report();
  expect(await describeUnmatched(rules, list)).toMatchObject([
    { domain, entries, count: 6, error: 0, perSecond: 0.1, ...found },
  ]);
  expect(counts).toMatchObject([{ count: 6 }]);
  for (let slot = 0; slot < 6; slot++) unmatched.rotate();
  expect(unmatched.report().list.entries).toEqual([]);
});

test('beyond 20,000 unmatched descriptors in ten seconds one in 16 is counted, as 16', () => {
  const rules = rulesFrom('domain: shop');
  const unmatched = new Unmatched(() => rules);
  const answer = { verdicts: [{ kind: 'no_rule' }] } as never; // all that is read
  for (let request = 0; request < 420_000; request++)
    unmatched.answered('shop', [{ entries: [{ key: 'user', value: 'alice' }] }], answer);
  const { list, counts } = unmatched.report();
  expect((list.total - 20_000) % SAMPLED).toBe(0);
  expect(Math.abs(list.total / 420_000 - 1)).toBeLessThan(0.05);
  expect(counts).toEqual([{ domain: 'shop', reason: 'no_such_key', count: list.total }]);
});
