import '../../helpers/realm.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';
import { openReady } from '../../helpers/connection.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { eventually } from '../../helpers/until.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
`;

let server: Redis;
let redis: Awaited<ReturnType<typeof openReady>>;
let service: Administered | undefined;
beforeAll(async () => {
  server = await startRedis();
  redis = await openReady(server);
});
afterEach(async () => {
  await service?.stop();
  await redis.flushall();
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

const start = async (): Promise<Administered> => {
  service = await startAdministered(RULES, { REDIS_URL: server.url });
  return service;
};
const ask = (weir: Administered, user: string) =>
  weir.ask({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: user }] }] });
const overrideOf = (value: string, effect: object) =>
  JSON.stringify({
    domain: 'demo',
    entries: [{ key: 'user', value }],
    effect,
    untilMs: Date.now() + 3_600_000,
    by: 'admin',
    reason: 'test',
  });

test('a record that is no override is named, and costs no other override', async () => {
  await redis.hset('weir|overrides', {
    bad: '{',
    null: 'null',
    unitless: overrideOf('alice', { kind: 'limit', requestsPerUnit: 5 }),
    good: overrideOf('bob', { kind: 'block' }),
  });
  const weir = await start();
  await eventually(async () => (await ask(weir, 'bob')) === 429);
  expect(await ask(weir, 'alice')).toBe(200);
  const { body } = await weir.call('GET', '/api/v1/overrides');
  expect(body.overrides.map(({ descriptor }: { descriptor: string }) => descriptor)).toEqual(['user=bob']);
  for (const key of ['bad', 'null', 'unitless'])
    expect(weir.weir.output().split(`under ${key} has no effect`)).toHaveLength(2);
});

test('values of another program in the audit log and among instances are left out', async () => {
  await redis.lpush('weir|audit', '{', 'null', '{"who":"ann"}');
  await redis.hset('weir|instances', { bad: '{', null: 'null' });
  const weir = await start();
  expect((await weir.call('GET', '/api/v1/audit')).body).toMatchObject({ changes: [{ who: 'ann' }] });
  expect((await weir.call('GET', '/api/v1/instances')).status).toBe(200);
});

const reasonsOf = async (weir: Administered): Promise<Readonly<Record<string, string>>> => {
  const { background } = (await weir.call('GET', '/api/v1/status')).body;
  return Object.fromEntries(
    background.map(({ name, reason = 'works' }: { name: string; reason?: string }) => [name, reason]),
  );
};

test('keys of another type and a foreign candidate are named, and cost nothing but what they held', async () => {
  const names = ['overrides', 'audit', 'instances', 'candidate', 'candidate_text'];
  for (const name of names) await redis.set(`weir|${name}`, 'x');
  const weir = await start();
  const says = (name: string) => `another program has written weir|${name}, which has another type: delete it`;
  await eventually(
    async () => {
      const { overrides, candidate } = await reasonsOf(weir);
      return overrides?.includes(says('overrides')) === true && candidate?.includes(says('candidate')) === true;
    },
    undefined,
    30_000,
  );
  expect([await ask(weir, 'ann'), await ask(weir, 'ann'), await ask(weir, 'ann')]).toEqual([200, 200, 429]);
  for (const [path, name] of [
    ['audit', 'audit'],
    ['instances', 'instances'],
  ] as const) {
    const { status, body } = await weir.call('GET', `/api/v1/${path}`);
    expect([status, JSON.stringify(body)]).toEqual([503, expect.stringContaining(says(name))]);
  }
  await redis.del(names.map((name) => `weir|${name}`));
  await eventually(async () => Object.values(await reasonsOf(weir)).every((reason) => reason === 'works'));
  await redis.hset('weir|candidate', { newest: 'x' });
  await redis.hset('weir|candidate_text', { newest: '{"id":"x","posted":{"text":5}}' });
  const failing = /^the candidate in the store is not used: the record is not valid/;
  await eventually(async () => failing.test((await reasonsOf(weir)).candidate ?? ''));
  expect((await weir.call('DELETE', '/api/v1/candidate', { reason: 'test' })).status).toBe(200);
  await eventually(async () => (await reasonsOf(weir)).candidate === 'works');
  expect(weir.weir.output().split('reading the candidate is failing: the candidate')).toHaveLength(2);
});
