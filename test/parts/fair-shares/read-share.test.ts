import type { Backend } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { decide } from '../../../src/engine/decide/decide.ts';
import { createDebit, sharedBy } from '../../../src/engine/ledger/debit.ts';
import { storeTraits } from '../../../src/engine/open/options.ts';
import { bucketStrategy } from '../../../src/engine/rules/match/strategy.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { backendThat, manualTimers, settlingLedger } from '../../helpers/ledger.ts';
import { loadText } from '../../helpers/rules.ts';
import { childOf, fairShareOf } from '../../helpers/shares.ts';

const rules = (limit: string, children = ''): string =>
  `domain: d\ndescriptors: [{ key: api, value: x, rate_limit: { ${limit} }, descriptors: [${children}] }]\n`;

const shared = 'unit: second, requests_per_unit: 1000, share: { by: tenant }';

/** The problems of a file, or none. */
function problemsOf(text: string): readonly string[] {
  const loaded = loadText(text);
  return loaded.ok ? [] : loaded.problems.map(({ message }) => message);
}

test.each(
  Object.entries({
    'requests_per_unit: 10, unit: hour, share: { by: tenant }':
      'requires a rate per second or minute, so that children soon have their part, got a window of 3600000 ms',
    'algorithm: in_flight, requests_per_unit: 10, ttl: 2s, share: { by: tenant }':
      'requires the id of the request with in_flight: put not_counted: hold on this node or one above',
    [`algorithm: fixed_window, ${shared}`]: 'cannot be used with fixed_window, only with token_bucket or in_flight',
    [`refill: interval, ${shared}`]: 'cannot be used with share: remove one of them',
    [`on_store_failure: local, ${shared}`]: 'cannot be used with share: remove one of them',
    [`consistency: leased, ${shared}`]: 'cannot be used with share: remove one of them',
  }),
)('a shared limit cannot be { %s }', (limit, message) => {
  expect(problemsOf(rules(limit))).toEqual([message]);
});

test.each(
  Object.entries({
    '{ key: tenant, value: a, share: { reserve: 70% } }, { key: tenant, value: b, share: { reserve: 400 } }':
      'reservations add up to 1100 hits per second, more than the 1000 of the limit',
    '{ key: tenant, value: a, share: { reserve: 20%, by: team }, descriptors: [{ key: team, value: t, share: { reserve: 300 } }] }':
      'reservations add up to 300 hits per second, more than the 200 of this tenant',
    '{ key: tenant, value: a, share: { by: team }, descriptors: [{ key: team, value: t, share: { reserve: 50% } }] }':
      'requires a reserve of the tenant above, of which it is a part',
    '{ key: tenant, share: { reserve: 1% } }':
      'requires a fixed value: the number of other children is unknown; give them a weight',
    '{ key: tenant, value: a, share: { reserve: 20%, ceiling: 100 } }':
      "must be 200 to 1000 hits per second, got '100'",
    '{ key: team, value: a, share: { weight: 2 } }': "a child of this limit has the key tenant, got 'team'",
    '{ key: tenant, share: { weight: 2000 } }': 'must be 1 to 1000, got 2000',
    '{ key: tenant, share: { priority: high } }':
      "must be critical, default, sheddable, 1 to 100 (percent), or value, got 'high'",
    '{ key: tenant, share: {}, rate_limit: { unit: second, requests_per_unit: 1 } }':
      'a child cannot have a limit of its own: it has a ceiling',
  }),
)('a shared limit cannot have the children %s', (children, message) => {
  expect(problemsOf(rules(shared, children))).toEqual([message]);
});

/** Slots that tenants share, for requests with an id. */
const slotRules = (limit: string, children = ''): string =>
  `domain: d\ndescriptors: [{ key: api, value: x, descriptors: [{ key: id, not_counted: hold, rate_limit: { ${limit} }, descriptors: [${children}] }] }]\n`;

const sharedSlots = 'algorithm: in_flight, requests_per_unit: 10, ttl: 30s, share: { by: tenant }';

test.each([
  [
    '{ key: tenant, value: a, share: { reserve: 110% } }',
    'reservations add up to 11 slots, more than the 10 of the limit',
  ],
  ['{ key: tenant, value: a, share: { ceiling: 20 } }', "must be 1 to 10 slots, got '20'"],
  ['{ key: tenant, value: a, share: { reserve: 5% } }', 'must be at least 1 of its slots'],
] as const)('shared slots cannot have the children %s', (children, message) => {
  expect(problemsOf(slotRules(sharedSlots, children))).toEqual([message]);
});

test('slots that are shared cannot be soft', () => {
  expect(problemsOf(slotRules(`soft: 2, ${sharedSlots}`))).toEqual(['cannot be used with share: remove one of them']);
});

test('children share slots, and adaptive ones by parts of the current number', async () => {
  const children = '{ key: tenant, value: a, share: { reserve: 20% } }, { key: tenant, share: { ceiling: 90% } }';
  const takeAll = (limit: string, last: number) =>
    answersOf(slotRules(limit, children), [
      ...Array.from({ length: last }, (_, at) => `api=x,id=b${at},tenant=b`),
      'api=x,id=c,tenant=c',
      'api=x,id=a1,tenant=a',
      'api=x,id=a2,tenant=a',
      'api=x,id=b0,tenant=b × -1',
      'api=x,id=c2,tenant=c',
      'api=x,id=a2,tenant=a',
    ]);
  expect(await takeAll(sharedSlots, 10)).toEqual([
    ...Array.from({ length: 9 }, () => 'OK passed'),
    'OVER_LIMIT held', // left to those that come next
    'OK passed',
    'OVER_LIMIT empty',
    'OVER_LIMIT empty',
    'OK passed',
    'OVER_LIMIT held',
    'OK passed',
  ]);
  const adapt = 'algorithm: in_flight, ttl: 30s, adapt: { min: 10, max: 100 }, share: { by: tenant }';
  expect(await takeAll(adapt, 10)).toEqual(await takeAll(sharedSlots, 10));
});

test('a limit that is not shared has no children', () => {
  expect(problemsOf(rules('unit: second, requests_per_unit: 5', '{ key: tenant, share: { weight: 2 } }'))).toEqual([
    'requires a limit with share: { by: tenant } on the node above',
  ]);
});

/** A store that cannot be reached. */
const lostStore = backendThat(async (operations) => operations.map(() => ({ code: 'UNAVAILABLE', reason: 'gone' })));

/** What a request to rules gets, and the counter and the children that its first limit counts on. */
async function answersOf(text: string, requests: readonly string[], store?: Backend) {
  const loaded = loadText(text);
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const clock = fakeClock();
  const ledger = settlingLedger(store ?? createMemoryBackend(clock, { maxCounters: 1_000 }), clock, {});
  const decider = deciderOf(loaded.rules, { clock, ledger });
  const codes: string[] = [];
  for (const request of requests) {
    const [path = '', hits = '1'] = request.split(' × ');
    const entries = path.split(',').map((entry) => {
      const [key = '', value = ''] = entry.split('=');
      return { key, value };
    });
    const descriptors = [{ entries, requestLimit: undefined, hits: Number(hits) }];
    const { overallCode, verdicts } = await decide({ domain: 'd', descriptors }, decider, 1_000);
    const [verdict] = verdicts;
    const reason = verdict?.kind === 'limited' ? verdict.decision.share?.reason : verdict?.kind;
    codes.push(`${overallCode} ${reason}`);
  }
  return codes;
}

test('children that no rule lists share the limit of the node above, down three levels', async () => {
  const answers = await answersOf(
    rules(
      shared,
      '{ key: tenant, share: { by: team }, descriptors: [{ key: team, share: { by: key } }] }, { key: tenant, value: vip, share: { reserve: 10%, ceiling: 500 } }',
    ),
    [
      'api=x,tenant=vip × 501',
      'api=x,tenant=vip × 50',
      'api=x,tenant=a,team=t,key=k × 800',
      'api=x,tenant=a × 100',
      'api=x,tenant=a,team=t,key=k × 60',
      'api=x,tenant=vip × 50',
      'api=x × 1',
      'api=x,tenant=a,team=t,key=k,more=1',
    ],
  );
  expect(answers).toEqual([
    'OVER_LIMIT ceiling',
    'OK passed',
    'OK passed',
    'OVER_LIMIT held', // the rest of what vip has reserved
    'OVER_LIMIT held',
    'OK passed', // from its reservation
    'OK passed',
    'OK no_rule',
  ]);
});

test('the value of an entry states the priority', async () => {
  const answers = await answersOf(
    rules(
      'unit: second, requests_per_unit: 100, share: { by: user }',
      '{ key: user, share: { by: class }, descriptors: [{ key: class, share: { priority: value } }] }',
    ),
    ['sheddable × 61', 'sheddable × 60', 'sheddable', 'default × 25', 'other', 'critical × 15', 'critical'].map(
      (one) => `api=x,user=u,class=${one}`,
    ),
  );
  expect(answers).toEqual([
    'OVER_LIMIT priority',
    'OK passed',
    'OVER_LIMIT priority',
    'OK passed',
    'OVER_LIMIT priority',
    'OK passed',
    'OVER_LIMIT empty',
  ]);
});

test.each([
  ['on_store_failure: allow, ', 'OK'],
  ['on_store_failure: deny, ', 'OVER_LIMIT'],
] as const)('without a store, %sof the limit decides for its children', async (policy, code) => {
  const child = '{ key: tenant, value: a, share: { reserve: 20% } }';
  for (const [text, id] of [
    [rules(`${policy}${shared}`, child), ''],
    [slotRules(`${policy}${sharedSlots}`, child), 'id=1,'],
  ] as const)
    expect(await answersOf(text, [`api=x,${id}tenant=a`, `api=x,${id}tenant=b`], lostStore)).toEqual([
      `${code} undefined`,
      `${code} undefined`,
    ]);
});

test('hits that children give back while there is no store are not credited to one of them later', async () => {
  const clock = fakeClock();
  const { every, runOnce } = manualTimers();
  let isLost = true;
  let settlements = 0;
  const memory = createMemoryBackend(clock, { maxCounters: 100 });
  const store = backendThat((operations, how) => (isLost ? lostStore : memory).run(operations, how), {
    settle: async () => {
      settlements++;
      return true;
    },
  });
  const ledger = settlingLedger(store, clock, { every });
  const limit = { limit: fairShareOf(10, { path: [childOf()] }), policy: { onStoreFailure: 'allow' } } as const;
  for (const child of [1, 2]) {
    const back = createDebit({ key: 'k' as CounterKey }, limit, -3, true);
    const [entry] = await ledger.debit([sharedBy(back, { children: [child] })], { spend: 'each', timeoutMs: 1_000 });
    expect(entry).toMatchObject({ code: 'OK', degraded: 'allow' });
  }
  isLost = false;
  await runOnce();
  expect(settlements).toBe(0);
});

test('without a store and a policy, the children of a limit get an error', async () => {
  await expect(answersOf(rules(shared), ['api=x,tenant=a'], lostStore)).rejects.toThrow('gone');
});

test('a proxy cannot apply a shared limit, which the check with RLQS says', async () => {
  const loaded = loadText(rules(shared, '{ key: tenant, value: a, share: {} }'));
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  expect(Array.from(loaded.rules.rules, (rule) => bucketStrategy(rule))).toEqual(
    Array.from({ length: 3 }, () => ({
      kind: 'unsupported',
      reason: 'share divides the limit among children, and it applies to none of them alone',
    })),
  );
});

test('cannot count shared limits', () => {
  const store = storeTraits({ store: { memcached: ['127.0.0.1:11211'] } });
  const loaded = loadText(rules(shared), { store });
  expect(loaded).toMatchObject({
    ok: false,
    problems: [{ message: 'shared limits cannot be counted in memcached; use Redis' }],
  });
});
