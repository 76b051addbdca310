import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '../helpers/grpc-client.ts';
import { freePort } from '../helpers/process.ts';
import { startRedis } from '../helpers/redis.ts';
import { clientOf, startWatched } from '../helpers/redis-topologies.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function service(env: Readonly<Record<string, string>>): Promise<Weir> {
  const weir = await startWeir({ USE_STATSD: 'false', ...env });
  closing.push(weir.stop);
  return weir;
}

/** A Redis, and an operator's client of it. */
async function redisWithOperator(password?: string) {
  const redis = await startRedis(password === undefined ? {} : { args: ['--requirepass', password] });
  closing.push(() => redis.stop());
  const operator = clientOf(redis, password);
  closing.push(() => operator.disconnect());
  return { redis, operator };
}

/** The service with the demo rules, and a caller of it. */
async function serviceWithCaller(env: Readonly<Record<string, string>>) {
  const weir = await service({ RULES_PATH: 'config/rules.yaml', ...env });
  const client = createClient(`127.0.0.1:${weir.grpcPort}`);
  closing.push(client.close);
  return { weir, client };
}

test('an unreachable sentinel causes only log lines on stderr', async () => {
  const watched = await startWatched();
  const sentinels = [watched.sentinelPort, await freePort()].map((port) => `127.0.0.1:${port}`);
  const weir = await service({ REDIS_TYPE: 'SENTINEL', REDIS_URL: [watched.name, ...sentinels].join(',') });
  await watched.stop();
  await weir.waitFor('no connection to master');
  expect(weir.output()).not.toContain('[ioredis]');
});

const health = async ({ httpPort }: Weir) => {
  const response = await fetch(`http://127.0.0.1:${httpPort}/healthcheck?verbose`);
  return { status: response.status, text: await response.text() };
};
const isHealthy = async (weir: Weir): Promise<boolean> => (await health(weir)).status === 200;

test('health is not serving, and one log line names the reason, if the user lacks the keys', async () => {
  const { redis, operator } = await redisWithOperator();
  await operator.acl('SETUSER', 'weir', 'on', '>s3cret', '+@all', 'resetkeys', '~other:*');
  const { weir, client } = await serviceWithCaller({ REDIS_URL: `redis://weir:s3cret@${redis.url}` });
  await weir.waitFor('refuses calls: NOPERM');
  expect(await health(weir)).toEqual({
    status: 500,
    text: expect.stringContaining('no permissions to access one of the keys'),
  });
  await weir.waitFor(async () => {
    const refused = (await operator.call('ACL', 'LOG')) as readonly (readonly unknown[])[]; // alternating names and values
    return refused.flat().includes('weir_probe|1:0');
  });
  for (let call = 0; call < 3; call++) await expect(client.ask()).rejects.toThrow('UNAVAILABLE');
  expect(weir.output().match(/refuses calls/g)).toHaveLength(1);

  await operator.acl('SETUSER', 'weir', '+@all', 'allkeys');
  await weir.waitFor(() => isHealthy(weir));
  expect(await client.ask()).toMatchObject({ statuses: [{}] });
});

const windows = 'domain: d\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 2}}]';
const bucket = windows.replace('unit: day', 'algorithm: token_bucket, unit: day');

/** A Redis whose user may not run scripts, and a rule file. */
async function withoutScripts(rules: string) {
  const { redis, operator } = await redisWithOperator();
  await operator.acl('SETUSER', 'weir', 'on', '>s3cret', '+@all', '-evalsha', '-eval', 'allkeys');
  const path = join(mkdtempSync(join(tmpdir(), 'rules-')), 'rules.yaml');
  writeFileSync(path, rules);
  return { path, env: { REDIS_URL: `redis://weir:s3cret@${redis.url}`, RULES_PATH: path } };
}

test('a user who may not run scripts counts fixed windows, and a reload that needs more is refused by name', async () => {
  const { path, env } = await withoutScripts(windows);
  const { weir, client } = await serviceWithCaller(env);
  await weir.waitFor(() => isHealthy(weir));
  await weir.waitFor('counts fixed windows only: NOPERM');
  expect(weir.output()).not.toContain('refuses calls');
  const codes: number[] = []; // OK and OVER_LIMIT
  for (let call = 0; call < 4; call++) codes.push((await client.ask('d')).overall_code);
  expect(codes).toEqual([1, 1, 2, 2]);
  writeFileSync(path, bucket);
  await weir.waitFor(
    'descriptors[0].rate_limit.algorithm: token_bucket needs a script, which cannot run in these Redis: NOPERM',
  );
  await weir.waitFor('the rules in force are kept');
  expect(await isHealthy(weir)).toBe(true);
});

test('a service whose rules need scripts does not start if the user may not run them', async () => {
  const { env } = await withoutScripts(bucket);
  await expect(service(env)).rejects.toThrow('token_bucket needs a script, which cannot run in these Redis: NOPERM');
});

test('with REDIS_HEALTH_CHECK_ACTIVE_CONNECTION, health follows a permission that is revoked and granted again', async () => {
  const { redis, operator } = await redisWithOperator();
  const { weir, client } = await serviceWithCaller({
    REDIS_URL: redis.url,
    REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true',
  });
  await weir.waitFor(() => isHealthy(weir));
  await operator.acl('SETUSER', 'default', '-evalsha', '-incrby');
  await expect(client.ask()).rejects.toThrow('UNAVAILABLE');
  await weir.waitFor(async () => !(await isHealthy(weir)));
  await operator.acl('SETUSER', 'default', '+evalsha', '+incrby');
  await weir.waitFor('accepts calls again');
  expect(await operator.keys('*probe*')).toEqual([]); // checking the permission writes nothing
  expect(await isHealthy(weir)).toBe(true);
});

test('calls are still answered when the user may no longer subscribe to the channel that instances share', async () => {
  const { redis, operator } = await redisWithOperator();
  const { weir, client } = await serviceWithCaller({
    REDIS_URL: redis.url,
    LOCAL_CACHE_SIZE_IN_BYTES: '1000000',
  });
  await weir.waitFor(async () =>
    String(await operator.call('CLIENT', 'LIST', 'TYPE', 'pubsub')).includes('weir-changes'),
  );
  await operator.acl('SETUSER', 'default', 'resetchannels'); // disconnects subscribers
  await weir.waitFor(async () => String(await operator.call('ACL', 'LOG')).includes('weir|changes')); // it failed to subscribe again
  expect(await client.ask()).toMatchObject({ statuses: [{}] });
});

test('a password change at run time breaks no open connection, and new ones report the reason until the password is right', async () => {
  const { redis, operator } = await redisWithOperator('s3cret');
  const { weir, client } = await serviceWithCaller({
    REDIS_URL: redis.url,
    REDIS_AUTH: 's3cret',
    REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true',
    KEEP_REFUSALS: 'false', // its caller is over its limit
  });
  await weir.waitFor(() => isHealthy(weir));
  await operator.config('SET', 'requirepass', 'another');
  for (let call = 0; call < 20; call++) expect(await client.ask()).toMatchObject({ statuses: [{}] });

  await operator.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await weir.waitFor('no connection to');
  await weir.waitFor(async () => (await health(weir)).text.includes('WRONGPASS'));
  await expect(client.ask()).rejects.toThrow(/UNAVAILABLE.*WRONGPASS/);
  await operator.config('SET', 'requirepass', 's3cret');
  await weir.waitFor(() => isHealthy(weir));
  expect(await client.ask()).toMatchObject({ statuses: [{}] });
  expect(weir.output()).not.toContain('s3cret');
});

test("with COUNTER_KEYS=reference, local counts during an outage of Redis are settled under envoyproxy/ratelimit's key", async () => {
  const folder = mkdtempSync(join(tmpdir(), 'shared-'));
  const redis = await startRedis({ folder: join(folder) });
  closing.push(() => redis.stop());
  const rules = join(folder, 'rules.yaml');
  const limit = '{unit: year, requests_per_unit: 100, on_store_failure: local}';
  writeFileSync(rules, `domain: demo\ndescriptors:\n  - {key: user, rate_limit: ${limit}}\n`);
  const weir = await service({ REDIS_URL: redis.url, RULES_PATH: rules, COUNTER_KEYS: 'reference' });
  const client = createClient(`127.0.0.1:${weir.grpcPort}`);
  closing.push(client.close);
  const ask = async (times: number) => {
    for (let time = 0; time < times; time++) expect(await client.ask()).toMatchObject({ overall_code: 1 });
  };
  await ask(3);
  await redis.kill();
  await weir.waitFor('no connection to');
  await ask(2);
  await redis.restart();
  const operator = clientOf(redis);
  closing.push(() => operator.disconnect());
  const counts = async () => Promise.all((await operator.keys('demo_user_alice_*')).map((key) => operator.get(key)));
  await weir.waitFor(async () => JSON.stringify(await counts()) === '["5"]');
  await ask(1);
  expect(await counts()).toEqual(['6']);
});

test('while Redis is down, workers stay ready, and report since when the store is down, and that it is up again', async () => {
  const redis = await startRedis();
  closing.push(() => redis.stop());
  const weir = await service({ REDIS_URL: redis.url, WORKERS: '2', RULES_PATH: 'config/rules.yaml' });
  const gauge = async (name: string): Promise<number> => {
    const page = await (await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`)).text();
    return Number(new RegExp(`^${name} (.*)$`, 'm').exec(page)?.[1]);
  };
  await weir.waitFor(async () => (await gauge('weir_store_up')) === 1);
  await weir.waitFor(async () => (await health(weir)).text.includes('store: up'));
  await redis.stop();
  await weir.waitFor(async () => (await gauge('weir_store_up')) === 0);
  await weir.waitFor(async () => (await health(weir)).text.includes('store: down: '));
  expect(await gauge('weir_ready')).toBe(1);
  expect(await health(weir)).toEqual({
    status: 200,
    text: expect.stringMatching(/^OK\nstore: down: .+\nlast success: \d+\.\d s ago\ncircuit to .*: \w+\n$/),
  });
  const last = await gauge('weir_store_last_success_timestamp_seconds');
  expect(last).toBeGreaterThan(1e9);
  await redis.restart();
  await weir.waitFor(async () => (await gauge('weir_store_up')) === 1);
  await weir.waitFor(async () => (await gauge('weir_store_last_success_timestamp_seconds')) > last);
  expect(await gauge('weir_ready')).toBe(1);
});

test('a store that hangs is reported as down even without calls', async () => {
  const redis = await startRedis();
  closing.push(() => redis.stop());
  const weir = await service({ REDIS_URL: redis.url, RULES_PATH: 'config/rules.yaml' });
  await weir.waitFor(async () => (await health(weir)).text.includes('store: up'));
  redis.pause();
  await weir.waitFor(async () => (await health(weir)).text.includes('store: down: '));
  expect((await health(weir)).status).toBe(200);
  redis.resume();
  await weir.waitFor(async () => (await health(weir)).text.includes('store: up'));
});
