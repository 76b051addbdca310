import { type Decider, decide, type RequestDescriptor } from '../../../src/engine/decide/decide.ts';
import { Overrides } from '../../../src/engine/decide/overrides.ts';
import { describeWouldRefuse, untoldFacts, wouldRefuse } from '../../../src/engine/decide/would-refuse.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { fixedWindowOf, ruleLimitOf } from '../../helpers/limits.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const rules = rulesFrom(`
domain: shop
descriptors:
  - { key: shadow, shadow_mode: true, rate_limit: { name: trial, unit: minute, requests_per_unit: 0 } }
  - { key: spent, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: healthy, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - { key: spent_quota, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: quota, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - { key: free, rate_limit: { unlimited: true } }
  - key: several
    rate_limits:
      - { unit: day, requests_per_unit: 9 }
      - { unit: hour, requests_per_unit: 0, shadow_mode: true }
      - { unit: minute, requests_per_unit: 0, shadow_mode: true }
  - key: all_shadow
    shadow_mode: true
    rate_limits: [{ unit: hour, requests_per_unit: 0 }, { unit: minute, requests_per_unit: 0 }, { unit: day, requests_per_unit: 9 }]
`);

const descriptor = (key: string, changes: Partial<RequestDescriptor> = {}): RequestDescriptor => ({
  ...{ entries: [{ key, value: 'a' }], requestLimit: undefined, hits: 1 },
  ...changes,
});

async function ask(
  descriptors: readonly RequestDescriptor[],
  changes: Partial<Decider> = {},
  tree = rules,
  domain = 'shop',
) {
  return decide({ domain, descriptors }, deciderOf(tree, changes), Number.POSITIVE_INFINITY);
}

/** The limits that would have refused: `0 shop.shadow shadow`. */
const sparedOf = async (keys: string, changes: Partial<Decider> = {}): Promise<readonly string[]> =>
  wouldRefuse(
    await ask(
      keys.split(' ').map((key) => descriptor(key)),
      changes,
    ),
  ).map(({ descriptor: at, rule, label, reason }) => `${at} ${rule.path} ${label.unit} ${reason}`);

test.each([
  ['healthy free unmatched', []],
  ['spent', []],
  ['shadow', ['0 shop.shadow MINUTE shadow']],
  ['healthy shadow', ['1 shop.shadow MINUTE shadow']],
  ['spent shadow', ['1 shop.shadow MINUTE shadow']],
  ['several', ['0 shop.several HOUR shadow', '0 shop.several MINUTE shadow']],
  ['all_shadow', ['0 shop.all_shadow HOUR shadow', '0 shop.all_shadow MINUTE shadow']],
  ['spent_quota', []],
  ['spent_quota quota', ['0 shop.spent_quota MINUTE quota']],
  ['spent_quota quota spent', ['0 shop.spent_quota MINUTE quota']],
  ['spent_quota spent_quota', []],
])('of the limits of %s would have refused: %j', async (keys, expected) => {
  expect(await sparedOf(keys)).toEqual(expected);
});

test.each([
  ['healthy', []],
  ['spent', ['0 shop.spent MINUTE service_shadow']],
  ['spent shadow', ['0 shop.spent MINUTE service_shadow', '1 shop.shadow MINUTE shadow']],
  ['spent_quota', ['0 shop.spent_quota MINUTE service_shadow']],
  ['spent quota spent_quota', ['0 shop.spent MINUTE service_shadow', '2 shop.spent_quota MINUTE quota']],
])('of %s in a service in shadow mode: %j', async (keys, expected) => {
  expect(await sparedOf(keys, { shadowMode: true })).toEqual(expected);
});

test('in quota mode, any limit with room lets the request pass', async () => {
  expect(await sparedOf('spent healthy', { quotaMode: true })).toEqual(['0 shop.spent MINUTE quota']);
  expect(await sparedOf('spent spent', { quotaMode: true })).toEqual([]);
});

test('the limits are described in words', async () => {
  const answer = await ask([descriptor('healthy'), descriptor('shadow')]);
  expect(describeWouldRefuse(answer)).toEqual([
    { descriptor: 1, rule: 'shop.shadow', name: 'trial', limit: '0 per minute', reason: 'shadow' },
  ]);
  expect(describeWouldRefuse(await ask([descriptor('healthy')]))).toBeUndefined();
});

test('a block and a limit in the request are described if the service is in shadow mode', async () => {
  const clock = fakeClock();
  const overrides = new Overrides(clock, () => 60_000);
  const block = { entries: [{ key: 'healthy', value: 'a' }], effect: { kind: 'block' } } as const;
  overrides.replace([{ domain: 'shop', ...block, untilMs: clock() + 60_000, by: 'ops', reason: 'abuse' }]);
  const requestLimit = { limit: ruleLimitOf(fixedWindowOf(0, 3_600_000)) };
  const asked = [descriptor('healthy'), descriptor('x'.repeat(1_000), { requestLimit })];
  expect(describeWouldRefuse(await ask(asked, { shadowMode: true, overrides }))).toEqual([
    {
      ...{ descriptor: 0, rule: 'shop.healthy', name: 'override', limit: 'blocked by an override' },
      reason: 'service_shadow',
    },
    {
      descriptor: 1,
      rule: `shop.${'x'.repeat(507)}_`.slice(0, 512),
      limit: '0 per 3600 seconds',
      reason: 'service_shadow',
    },
  ]);
});

test('descriptors that an override exempts are told', async () => {
  const clock = fakeClock();
  const overrides = new Overrides(clock, () => 60_000);
  const exempt = { entries: [{ key: 'spent', value: 'a' }], effect: { kind: 'exempt' } } as const;
  overrides.replace([{ domain: 'shop', ...exempt, untilMs: clock() + 60_000, by: 'ops', reason: 'vip' }]);
  const facts = async (...keys: readonly string[]) =>
    untoldFacts(
      await ask(
        keys.map((key) => descriptor(key)),
        { overrides },
      ),
    );
  expect(await facts('healthy', 'spent')).toEqual({ exempt: [1] });
  expect(await facts('healthy', 'free')).toBeUndefined();
});

describe('of requests without a required key', () => {
  const strict = (otherwise: string) =>
    rulesFrom(`
domain: api
require: { keys: [customer], ${otherwise} }
descriptors:
  - { key: customer, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - { key: path, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 0 } }
`);
  const factsOf = async (otherwise: string, changes: Partial<Decider> = {}) =>
    untoldFacts(await ask([descriptor('path')], changes, strict(otherwise), 'api'));
  const missing = ['customer'];
  const rule = 'api.missing_customer';

  test('the keys are told, and a limit beside that of the requirement', async () => {
    const path = { descriptor: 0, rule: 'api.path', limit: '0 per minute', reason: 'shadow' };
    expect(await factsOf('otherwise: allow')).toEqual({ missing, would_refuse: [path] });
    expect(await factsOf('limit: { unit: day, requests_per_unit: 5 }')).toEqual({ missing, would_refuse: [path] });
    expect(await factsOf('otherwise: refuse')).toEqual({ missing });
  });

  test('a refusal that the shadow mode of the service spares is told', async () => {
    const would_refuse = [expect.objectContaining({ rule, reason: 'service_shadow' })];
    expect(await factsOf('otherwise: refuse', { shadowMode: true })).toEqual({ missing, would_refuse });
  });

  test('nothing is told if the request has the key', async () => {
    expect(untoldFacts(await ask([descriptor('customer')], {}, strict('otherwise: allow'), 'api'))).toBeUndefined();
  });
});

test('at most 32 limits are described', async () => {
  const answer = await ask(Array.from({ length: 40 }, () => descriptor('shadow')));
  expect([wouldRefuse(answer).length, describeWouldRefuse(answer)?.length]).toEqual([40, 32]);
});
