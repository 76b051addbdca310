import '../../helpers/realm.ts';
import { Overrides, type StandingOverride } from '../../../src/engine/decide/overrides.ts';
import { listedOverride } from '../../../src/operate/admin/shown.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { eventually } from '../../helpers/until.ts';

const RULES = `
domain: demo
descriptors:
  - {key: customer, rate_limit: {unit: year, requests_per_unit: 1}}
`;

let redis: Redis;
let service: Administered;
beforeAll(async () => {
  redis = await startRedis();
  service = await startAdministered(RULES, { REDIS_URL: redis.url });
});
afterAll(async () => {
  await service.stop();
  await redis.stop();
});

const request = (value: string) => ({ domain: 'demo', descriptors: [{ entries: [{ key: 'customer', value }] }] });
const named = (value: string) => ({ domain: 'demo', descriptor: [{ key: 'customer', value }], reason: 'a test' });
const until = (): string => new Date(Date.now() + 3_600_000).toISOString();

/** The statuses of as many requests of a customer. */
async function ask(value: string, times: number): Promise<readonly number[]> {
  const statuses: number[] = [];
  for (let sent = 0; sent < times; sent++) statuses.push(await service.ask(request(value)));
  return statuses;
}

test('an override with a wildcard applies to each descriptor that begins so, with its own counter', async () => {
  const body = {
    ...named('acme-*'),
    wildcard: true,
    effect: 'limit',
    requestsPerUnit: 2,
    unit: 'YEAR',
    until: until(),
  };
  expect(await service.call('PUT', '/api/v1/overrides', body)).toMatchObject({
    status: 200,
    body: { descriptor: 'customer=acme-*', wildcard: true, effect: '2 per year' },
  });
  expect(await ask('acme-1', 3)).toEqual([200, 200, 429]);
  expect(await ask('acme-2', 3)).toEqual([200, 200, 429]);
  expect(await ask('other', 2)).toEqual([200, 429]);
});

test('a preview counts the counters that fit, and names some', async () => {
  await ask('prev-1', 1);
  await ask('prev-2', 1);
  await ask('pre', 1);
  await eventually(async () => {
    const { body } = await service.call('GET', '/api/v1/overrides/preview?domain=demo&descriptor=customer%3Dprev-*');
    return body.counters === 2;
  });
  expect(
    (await service.call('GET', '/api/v1/overrides/preview?domain=demo&descriptor=customer%3Dprev-*')).body,
  ).toMatchObject({ counters: 2, isAtLeast: false, examples: expect.arrayContaining(['customer=prev-1']) });
});

test('an override of one descriptor precedes a wildcard, and a longer wildcard a shorter one', async () => {
  const block = (value: string, more: object) =>
    service.call('PUT', '/api/v1/overrides', { ...named(value), until: until(), ...more });
  await block('big-*', { wildcard: true, effect: 'block' });
  await block('big-eu-*', { wildcard: true, effect: 'exempt' });
  await block('big-eu-1', { effect: 'block' });
  expect(await ask('big-us', 1)).toEqual([429]);
  expect(await ask('big-eu-2', 3)).toEqual([200, 200, 200]);
  expect(await ask('big-eu-1', 1)).toEqual([429]);
});

test('an override with a wildcard is removed as such; one of the text itself is another one', async () => {
  await service.call('PUT', '/api/v1/overrides', {
    ...named('gone-*'),
    wildcard: true,
    effect: 'block',
    until: until(),
  });
  expect(await ask('gone-1', 1)).toEqual([429]);
  expect(await service.call('DELETE', '/api/v1/overrides', named('gone-*'))).toMatchObject({ status: 404 });
  expect(await service.call('DELETE', '/api/v1/overrides', { ...named('gone-*'), wildcard: true })).toMatchObject({
    status: 200,
  });
  expect(await ask('gone-1', 1)).toEqual([200]);
});

test('a wildcard requires a value that ends in *', async () => {
  const body = { ...named('acme'), wildcard: true, effect: 'block', until: until() };
  expect(await service.call('PUT', '/api/v1/overrides', body)).toMatchObject({ status: 400 });
});

test('a wildcard stands for values of its own key and domain alone', () => {
  const overrides = new Overrides(
    () => 0,
    () => 60_000,
  );
  const one = (value: string, more: Partial<StandingOverride> = {}): StandingOverride => ({
    domain: 'demo',
    entries: [{ key: 'customer', value }],
    effect: { kind: 'block' },
    untilMs: 1,
    by: 'ops',
    reason: 'a test',
    ...more,
  });
  overrides.replace([one('*', { wildcard: true }), one('a*')]);
  expect(overrides.of({ kind: 'no_rule' }, 'demo', [{ key: 'customer', value: 'b' }])?.override.wildcard).toBe(true);
  expect(
    overrides.of({ kind: 'no_rule' }, 'demo', [{ key: 'customer', value: 'a*' }])?.override.wildcard,
  ).toBeUndefined();
  expect(overrides.of({ kind: 'no_rule' }, 'other', [{ key: 'customer', value: 'b' }])).toBeUndefined();
  expect(overrides.of({ kind: 'no_rule' }, 'demo', [{ key: 'user', value: 'b' }])).toBeUndefined();
});

test('at most 100 overrides have wildcards, also if many are set at once', async () => {
  const block = async (value: string) =>
    (
      await service.call('PUT', '/api/v1/overrides', {
        ...named(value),
        wildcard: true,
        effect: 'block',
        until: until(),
      })
    ).status;
  const isWild = async () =>
    (await service.call('GET', '/api/v1/overrides')).body.overrides.filter(
      ({ wildcard }: { wildcard?: boolean }) => wildcard,
    ).length;
  for (let set = await isWild(); set < 95; set++) await block(`cap-${set}-*`);
  const statuses = await Promise.all(Array.from({ length: 20 }, (_, at) => block(`more-${at}-*`)));
  expect(await isWild()).toBe(100);
  expect(statuses.filter((status) => status === 409)).toHaveLength(15);
});

test('values of a wildcard override that stand for themselves are hashed, as in others', () => {
  const entries = [
    { key: 'customer', value: 'acme-*' },
    { key: 'user', value: 'bob' },
  ];
  const override = {
    ...{ domain: 'demo', entries, wildcard: true as const, effect: { kind: 'block' as const } },
    ...{ untilMs: 1, by: 'ops', reason: 'a test' },
  };
  expect(listedOverride(override, (value) => `#${value.length}`).descriptor).toBe('customer=acme-*,user=#3');
});
