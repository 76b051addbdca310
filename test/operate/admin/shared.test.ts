import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const TOKEN = 'secret';
const LIMIT = 200;
const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 3, alignment: first_hit}}
  - {key: tenant, rate_limit: {unit: year, requests_per_unit: ${LIMIT}, alignment: first_hit, consistency: leased}}
`;

let redis: Redis;
let folder: string;
let instances: readonly Weir[];
beforeAll(async () => {
  redis = await startRedis();
  folder = mkdtempSync(join(tmpdir(), 'shared-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const env = { REDIS_URL: redis.url, ADMIN_TOKEN: TOKEN, USE_STATSD: 'false', LOCAL_CACHE_SIZE_IN_BYTES: '1000000' };
  const args = ['--rules', join(folder, 'rules.yaml')];
  instances = await Promise.all([startWeir({ ...env, WORKERS: '2' }, { args }), startWeir(env, { args })]);
});
afterAll(async () => {
  await Promise.all(instances.map((weir) => weir.stop()));
  await redis.stop();
});

const instance = (at: number): Weir => instances[at] as Weir; // all were started

/** Sends each hit on a new connection, so that workers take turns. */
const hit = async (weir: Weir, key: string, value: string): Promise<number> => {
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key, value }] }] });
  const response = await fetch(`http://127.0.0.1:${weir.httpPort}/json`, {
    method: 'POST',
    headers: { connection: 'close' },
    body,
  });
  await response.text();
  return response.status;
};

const call = async (weir: Weir, path: string, body?: object) => {
  const response = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/${path}`, {
    headers: { authorization: `Bearer ${TOKEN}` },
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: whatever the API sends
  return { status: response.status, body: (await response.json()) as any };
};

/** Resets a counter: an operation waits for Redis for a second at most. */
const reset = (weir: Weir, key: string, value: string): Promise<void> =>
  until(`the reset of ${key}=${value}`, async () => {
    const body = { domain: 'demo', descriptor: [{ key, value }], reason: 'test' };
    return (await call(weir, 'counters/reset', body)).status === 200;
  });

test('a reset reaches the cached refusals of every worker of every instance', async () => {
  for (let round = 0; round < 12; round++) for (const weir of instances) await hit(weir, 'user', 'alice');
  await reset(instance(1), 'user', 'alice');
  const statuses = [
    await hit(instance(0), 'user', 'alice'),
    await hit(instance(0), 'user', 'alice'),
    await hit(instance(1), 'user', 'alice'),
  ];
  expect(statuses).toEqual([200, 200, 200]);
  expect(await hit(instance(1), 'user', 'alice')).toBe(429);
  expect(await call(instance(0), 'audit')).toMatchObject({ body: { changes: [{ change: 'reset', who: 'admin' }] } });
});

test('explain shows the answer of a worker, and what each worker answers from', async () => {
  for (let hits = 0; hits < 12; hits++) await hit(instance(0), 'user', 'bob');
  let body = (await call(instance(0), 'explain', requestOf('bob'))).body;
  await until('each worker has seen a refusal, and replies in time', async () => {
    await hit(instance(0), 'user', 'bob');
    body = (await call(instance(0), 'explain', requestOf('bob'))).body;
    const sources = body.workers.flatMap((worker: { readonly sources: readonly string[] }) => worker.sources);
    return sources.join() === 'refusal,refusal';
  });
  expect(body).toMatchObject({
    status: 429,
    descriptors: [{ limits: [{ source: 'refusal', before: { remaining: 0 } }] }],
  });
  expect(body.workers).toHaveLength(2);
  expect(body.workers).toMatchObject([
    { process: expect.stringMatching(/^worker \d+ \(process \d+\)$/), status: 429, sources: ['refusal'] },
    { status: 429, sources: ['refusal'] },
  ]);
});

test('a reset while hits are leased makes the whole limit available again, and never more', async () => {
  const pass = async (): Promise<number> => {
    let passed = 0;
    for (let round = 0; round < 2 * LIMIT; round++)
      if ((await hit(instance(round % 2), 'tenant', 'a')) === 200) passed++;
    return passed;
  };
  for (let round = 0; round < 50; round++) await hit(instance(round % 2), 'tenant', 'a');
  await reset(instance(0), 'tenant', 'a');
  expect(await pass()).toBe(LIMIT);
});

test('an override is followed by every worker of every instance, and survives a restart', async () => {
  const body = { domain: 'demo', descriptor: [{ key: 'user', value: 'dan' }], effect: 'block', reason: 'abuse' };
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const set = await fetch(`http://127.0.0.1:${instance(1).debugPort}/api/v1/overrides`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${TOKEN}` },
    body: JSON.stringify({ ...body, until }),
  });
  expect(set.status).toBe(200);
  expect(await hit(instance(1), 'user', 'dan')).toBe(429);
  const refused = async (weir: Weir): Promise<void> => {
    const endMs = Date.now() + 100_000; // one second, and a margin for a busy machine
    for (let inARow = 0; inARow < 4; ) {
      inARow =
        (await hit(weir, 'user', 'dan')) === 429 &&
        (await call(weir, 'explain', requestOf('dan'))).body.descriptors[0].outcome === 'overridden'
          ? inARow + 1
          : 0;
      if (Date.now() > endMs) throw new Error('the other instance has not followed the override');
    }
  };
  await refused(instance(0));
  const third = await startWeir(
    { REDIS_URL: redis.url, ADMIN_TOKEN: TOKEN, USE_STATSD: 'false' },
    { args: ['--rules', join(folder, 'rules.yaml')] },
  );
  try {
    await refused(third);
  } finally {
    await third.stop();
  }
});

const requestOf = (user: string) => ({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: user }] }] });

test('counters are listed from Redis, and top keys from both instances', async () => {
  await hit(instance(0), 'user', 'carol');
  const { body } = await call(instance(1), 'counters?rule=demo.user');
  expect(body.counters).toEqual(
    expect.arrayContaining([expect.objectContaining({ entries: [{ key: 'user', value: 'carol' }], used: 1 })]),
  );
  for (let hits = 0; hits < 4; hits++) await hit(instance(0), 'nothing', `v${hits}`);
  await until('the workers have counted them', async () => (await call(instance(0), 'unmatched')).body.total === 4);
});
