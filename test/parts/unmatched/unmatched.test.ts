import '../../helpers/realm.ts';
import { NearestTexts } from '../../../src/base/nearest.ts';
import type { Answer } from '../../../src/engine/decide/decide.ts';
import { type Entry, match } from '../../../src/engine/rules/match/match.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { EXACT, SAMPLED, Sample } from '../../../src/parts/lab/sketches/sample.ts';
import { describeUnmatched, domainOf, Unmatched } from '../../../src/parts/unmatched/unmatched.ts';
import { numbers } from '../../helpers/numbers.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { until } from '../../helpers/until.ts';

/** Configurations that did not work for users, as reported: the rules, and the descriptors that the proxy sent. */
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
    'a mistyped key, where one value has a rule of its own',
    '{domain: d, descriptors: [{key: customer, value: alice, rate_limit: {unit: minute, requests_per_unit: 1}}, {key: customer, rate_limit: {unit: minute, requests_per_unit: 5}}]}',
    'd',
    ['custmer=ann'],
    { reason: 'no_such_key', why: expect.stringMatching(/the nearest is d\.customer$/) },
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

/** The answer to a request that matches no rule. */
function answerOf(rules: RuleTree, domain: string, entries: readonly Entry[]): Answer {
  const verdict = match(rules, domain, { entries, requestLimit: undefined });
  if (verdict.kind !== 'no_rule' && verdict.kind !== 'no_domain')
    throw new Error(`expected no rule, got ${verdict.kind}`);
  return { overallCode: 'OK', verdicts: [verdict], shadowed: false, delayMs: 0 };
}

test.each(reported)('the reason and the nearest rule are listed: %s', async (_, yaml, domain, sent, found) => {
  const rules = rulesFrom(yaml);
  const unmatched = new Unmatched();
  const entries = sent.map((text) => ({ key: text.split('=')[0] ?? '', value: text.slice(text.indexOf('=') + 1) }));
  const answer = answerOf(rules, domain, entries);
  for (let requests = 0; requests < 6; requests++) unmatched.answered(domain, [{ entries }], answer);
  const { list, counts } = unmatched.report();
  const [described] = await describeUnmatched(rules, list);
  expect(described).toMatchObject({ domain, entries, count: 6, error: 0, perSecond: 0.1, ...found });
  expect(counts).toEqual([
    { domain: rules.domains.has(domain) ? domain : '(other)', reason: described?.reason, count: 6 },
  ]);
  for (let slot = 0; slot < 6; slot++) unmatched.rotate();
  expect(unmatched.report().list.entries).toEqual([]);
});

const shop = rulesFrom(
  'domain: shop\ndescriptors: [{key: user, value: bob, rate_limit: {unit: minute, requests_per_unit: 1}}]',
);

test('after 20,000 unmatched descriptors in ten seconds, the list is a sample with bounds, but each one is counted', async () => {
  const unmatched = new Unmatched(new Sample(numbers(1)));
  const entries = [{ key: 'user', value: 'alice' }];
  const answer = answerOf(shop, 'shop', entries);
  let reads = 0;
  const descriptor = {
    get entries() {
      reads++;
      return entries;
    },
  };
  for (let request = 0; request < EXACT; request++) unmatched.answered('shop', [descriptor], answer);
  expect(unmatched.report()).toMatchObject({ list: { total: EXACT, entries: [{ count: EXACT }] } });
  for (let request = EXACT; request < 420_000; request++) unmatched.answered('shop', [descriptor], answer);
  expect(reads).toBeLessThan(EXACT + 5 * (SAMPLED / 2));
  const { list, countedOneIn, counts } = unmatched.report();
  expect(countedOneIn).toBe(64);
  const [found] = await describeUnmatched(shop, list, countedOneIn);
  const { count = 0, error = 0, atMostTooLowBy = 0 } = found ?? {};
  expect(Math.abs(count - 420_000)).toBeLessThan(countedOneIn);
  expect(error).toBeGreaterThan(countedOneIn);
  expect(atMostTooLowBy).toBeGreaterThan(countedOneIn);
  expect(counts).toEqual([{ domain: 'shop', reason: 'value_differs', count: 420_000 }]);
});

test('unmatched descriptors are counted by domain and reason, with all unknown domains counted together', () => {
  const unmatched = new Unmatched();
  const rules = { ...shop, domains: new Map(shop.domains) };
  const root = shop.domains.get('shop');
  for (let at = 0; root && at < 150; at++) rules.domains.set(`d${at}`, { ...root, name: `d${at}` });
  const count = (domain: string, key: string): void => {
    const entries = [{ key, value: 'alice' }];
    unmatched.answered(domain, [{ entries }], answerOf(rules, domain, entries));
  };
  for (let round = 0; round < 3; round++) {
    count('shop', 'user');
    count('shop', 'usr');
    count('shops', 'user');
    count('stores', 'user');
  }
  for (let at = 0; at < 150; at++) count(`d${at}`, 'user');
  const { counts } = unmatched.report();
  expect(counts).toEqual(
    expect.arrayContaining([
      { domain: 'shop', reason: 'value_differs', count: 3 },
      { domain: 'shop', reason: 'no_such_key', count: 3 },
      { domain: '(other)', reason: 'no_domain', count: 6 },
      { domain: 'd149', reason: 'value_differs', count: 1 },
    ]),
  );
  expect(new Set(counts.map(({ domain }) => domain)).size).toBe(152); // every domain with rules, and (other)
  expect(counts.reduce((sum, one) => sum + one.count, 0)).toBe(162);
});

test('a descriptor whose limits another rule of the request replaces is not unmatched', () => {
  const unmatched = new Unmatched();
  const answer = { overallCode: 'OK', verdicts: [{ kind: 'no_rule' }], shadowed: false, delayMs: 0 } as const;
  unmatched.answered('shop', [{ entries: [{ key: 'user', value: 'bob' }] }], answer);
  expect(unmatched.report()).toMatchObject({ list: { total: 0 }, counts: [] });
});

test('domains and entries of unmatched descriptors are kept apart for any texts, and long ones are cut', async () => {
  const unmatched = new Unmatched();
  const long = 'x'.repeat(3_000);
  for (const [domain, key] of [
    ['a|1:b', 'c'],
    ['a', '1:b|c'],
    ['a\0b', '|0:'],
    [long, long],
  ] as const) {
    const entries = [{ key, value: '' }];
    unmatched.answered(domain, [{ entries }], answerOf(shop, domain, entries));
  }
  const { list } = unmatched.report();
  const described = await describeUnmatched(shop, list);
  const cut = 'x'.repeat(200);
  expect(described.map(({ domain, entries }) => [domain, entries[0]?.key])).toEqual([
    ['a|1:b', 'c'],
    ['a', '1:b|c'],
    ['a\0b', '|0:'],
    [cut, cut],
  ]);
  expect(list.entries.filter((one) => domainOf(one) === 'a')).toHaveLength(1);
});

test('the work for one list is bounded, and the next list continues it', async () => {
  const values = Array.from(
    { length: 2_000 },
    (_, at) => `{key: path, value: /v${at}, rate_limit: {unit: hour, requests_per_unit: 1}}`,
  );
  const rules = rulesFrom(`{domain: d, descriptors: [${values.join(', ')}]}`);
  const MAX_COMPARED = 50_000 + 100; // each of a hundred searches may ask once more
  const compared = jest.spyOn(NearestTexts.prototype, 'take');
  const unmatched = new Unmatched();
  for (let at = 0; at < 100; at++) {
    const entries = [{ key: 'path', value: `/w${at}` }];
    unmatched.answered('d', [{ entries }], answerOf(rules, 'd', entries));
  }
  const { list } = unmatched.report();
  const first = await describeUnmatched(rules, list);
  expect(compared.mock.calls.length).toBeLessThanOrEqual(MAX_COMPARED);
  expect(first.filter(({ nearest = [] }) => nearest.length > 0).length).toBeGreaterThan(20);
  const isDone = async (): Promise<boolean> => {
    compared.mockClear();
    const described = await describeUnmatched(rules, list);
    expect(compared.mock.calls.length).toBeLessThanOrEqual(MAX_COMPARED);
    return described.every(({ nearest = [] }) => nearest.length > 0);
  };
  await until('all have been compared', isDone);
  compared.mockRestore();
});
