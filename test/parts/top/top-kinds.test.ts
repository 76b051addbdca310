import { type Decider, decide } from '../../../src/engine/decide/decide.ts';
import { MISSING } from '../../../src/engine/rules/read/requirement.ts';
import { describeKey } from '../../../src/parts/lab/sketches/rule-top.ts';
import { type TopKind, topKinds } from '../../../src/parts/lab/sketches/shapes.ts';
import { TopKeys } from '../../../src/parts/top/top-keys.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { overridesFor } from '../../helpers/overrides.ts';
import { rulesFrom } from '../../helpers/rules.ts';

/** The hits of each kind after three hits on a rule of one per minute. */
async function totalsOf(
  rule: string,
  changes: Partial<Decider> = {},
  others: readonly string[] = [],
): Promise<Partial<Record<TopKind, number>>> {
  const rules = rulesFrom(`domain: demo\ndescriptors:\n  - key: user\n    ${rule}`);
  const [decider, top] = [deciderOf(rules, changes), new TopKeys(100_000)];
  const descriptors = ['user', ...others].map((key) => ({
    ...{ entries: [{ key, value: 'a' }], hits: 1, requestLimit: undefined },
  }));
  for (let request = 0; request < 3; request++)
    top.answered(await decide({ domain: 'demo', descriptors }, decider, Number.POSITIVE_INFINITY));
  const totals = await Promise.all(
    topKinds.map(async (kind) => [kind, (await top.lists(kind, { rule: 'demo.user' }))[0]?.list.total] as const),
  );
  return Object.fromEntries(totals.filter(([, total]) => total !== undefined));
}

const one = 'unit: minute, requests_per_unit: 1';

test('refused hits are refusals', async () => {
  expect(await totalsOf(`rate_limit: { ${one} }`)).toEqual({ hits: 3, refusals: 2, refused_requests: 2 });
});

test.each([
  ['of the rule', `rate_limit: { ${one} }\n    shadow_mode: true`, {}],
  [
    'of a limit beside one with room',
    `rate_limits: [{ ${one}, shadow_mode: true }, { unit: hour, requests_per_unit: 9 }]`,
    {},
  ],
  ['of the service', `rate_limit: { ${one} }`, { shadowMode: true }],
])('hits that the shadow mode %s lets pass are of their own kind, and no refusals', async (_, rule, changes) => {
  expect(await totalsOf(rule, changes)).toEqual({ hits: 3, shadowed: 2 });
});

test('hits over a quota are refusals only if the request is refused', async () => {
  const quotas = `quota_mode: true\n    rate_limit: { ${one} }\n  - { key: other, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 3 } }`;
  expect(await totalsOf(quotas, {}, ['other'])).toEqual({ hits: 3, shadowed: 2 });
  expect(await totalsOf(quotas, {})).toEqual({ hits: 3, refusals: 2, refused_requests: 2 });
});

test('hits that one limit refuses are refusals, whatever another one in shadow mode would do', async () => {
  const limits = `[{ ${one}, shadow_mode: true }, { unit: hour, requests_per_unit: 1 }]`;
  expect(await totalsOf(`rate_limits: ${limits}`)).toEqual({ hits: 3, refusals: 2, refused_requests: 2 });
});

test('a client with few requests of many hits is refused less often than one with many requests', async () => {
  const rules = rulesFrom(`domain: demo\ndescriptors:\n  - key: user\n    rate_limit: { ${one} }`);
  const [decider, top] = [deciderOf(rules), new TopKeys(100_000)];
  const ask = async (value: string, hits: number): Promise<void> => {
    const descriptors = [{ entries: [{ key: 'user', value }], hits, requestLimit: undefined }];
    top.answered(await decide({ domain: 'demo', descriptors }, decider, Number.POSITIVE_INFINITY));
  };
  await ask('large', 21_000);
  for (let request = 0; request < 4; request++) await ask('small', 1);
  const [found] = await top.refused({ rules: 1, keys: 5 });
  const counts = found?.list.entries.map(({ key, count }, at) => [
    describeKey(key).entries[0]?.value,
    count,
    found.hits[at],
  ]);
  expect(new Set(counts)).toEqual(
    new Set([
      ['large', 1, [21_000, 21_000]],
      ['small', 3, [3, 4]],
    ]),
  );
});

test('values that share one counter are one client', async () => {
  const rules = rulesFrom(
    `domain: demo\ndescriptors:\n  - { key: path, value: /login*, share_threshold: true, rate_limit: { ${one} } }`,
  );
  const [decider, top] = [deciderOf(rules), new TopKeys(100_000)];
  for (const value of ['/login/1', '/login/2', '/login/3']) {
    const descriptors = [{ entries: [{ key: 'path', value }], hits: 1, requestLimit: undefined }];
    top.answered(await decide({ domain: 'demo', descriptors }, decider, Number.POSITIVE_INFINITY));
  }
  const [refused] = await top.lists('refused_requests');
  const clients = refused?.list.entries.map(({ key, count }) => [describeKey(key).entries, count]);
  expect(clients).toEqual([[[{ key: 'path', value: '/login*' }], 2]]);
});

test('a request without required keys counts under the requirement and under its own rule', async () => {
  const rules = rulesFrom(
    `domain: demo\nrequire: { keys: [customer], limit: { ${one} } }\ndescriptors:\n  - { key: user, rate_limit: { unit: hour, requests_per_unit: 2 } }`,
  );
  const [decider, top] = [deciderOf(rules), new TopKeys(100_000)];
  const descriptors = [{ entries: [{ key: 'user', value: 'a' }], hits: 1, requestLimit: undefined }];
  for (let request = 0; request < 3; request++)
    top.answered(await decide({ domain: 'demo', descriptors }, decider, Number.POSITIVE_INFINITY));
  const listed = async (kind: TopKind) =>
    (await top.lists(kind)).flatMap(({ rule, list }) =>
      list.entries.map(({ key, count }) => [rule, describeKey(key).entries, count]),
    );
  const missing = ['demo.missing_customer', [{ key: MISSING, value: 'customer' }]];
  const own = ['demo.user', [{ key: 'user', value: 'a' }]];
  expect(new Set(await listed('hits'))).toEqual(
    new Set([
      [...missing, 3],
      [...own, 3],
    ]),
  );
  expect(new Set(await listed('refusals'))).toEqual(
    new Set([
      [...missing, 2],
      [...own, 1],
    ]),
  );
});

test('a client with an override of its own is named by the counter of the override', async () => {
  const rules = rulesFrom(
    `domain: demo\ndescriptors:\n  - { key: path, value: /login*, share_threshold: true, rate_limit: { ${one} } }`,
  );
  const [decider, top] = [
    deciderOf(rules, { overrides: overridesFor('demo', [{ key: 'path', value: '/login/1' }]) }),
    new TopKeys(100_000),
  ];
  for (const value of ['/login/1', '/login/2']) {
    const descriptors = [{ entries: [{ key: 'path', value }], hits: 1, requestLimit: undefined }];
    top.answered(await decide({ domain: 'demo', descriptors }, decider, Number.POSITIVE_INFINITY));
  }
  const [hits] = await top.lists('hits');
  const values = hits?.list.entries.map(({ key }) => describeKey(key).entries[0]?.value);
  expect(new Set(values)).toEqual(new Set(['/login/1', '/login*']));
});
