import '../../helpers/realm.ts';
import { createHash } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startMemcached } from '../../helpers/memcached.ts';
import { startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - {key: address, value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 100}}
`;
const ADDRESS = '10.1.2.3';

let folder: string;
const closers: (() => Promise<unknown>)[] = [];
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'hash-key-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(env: Record<string, string>): Promise<Weir> {
  const weir = await startWeir(
    { HASH_KEYS: 'true', USE_STATSD: 'false', ...env },
    { args: ['--rules', join(folder, 'rules.yaml')] },
  );
  closers.push(() => weir.stop());
  return weir;
}

async function ask({ httpPort }: Weir): Promise<void> {
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'address', value: ADDRESS }] }] });
  const answer = await fetch(`http://127.0.0.1:${httpPort}/json`, {
    method: 'POST',
    body,
    headers: { connection: 'close' },
  });
  await answer.text();
}

/** The hashes in the statistics of an instance. */
async function hashes({ debugPort }: Weir): Promise<readonly string[]> {
  const stats = await (await fetch(`http://127.0.0.1:${debugPort}/stats`)).text();
  expect(stats).not.toContain(ADDRESS);
  return [...stats.matchAll(/address_(#[\w-]+)\.total_hits/g)].map(([, hash = '']) => hash);
}

test('without HASH_KEY, a value cannot be found by hashing all, and another instance shows another hash', async () => {
  const [one, other] = [await start({}), await start({})];
  await Promise.all([ask(one), ask(other)]);
  const shown = [...(await hashes(one)), ...(await hashes(other))];
  expect(new Set(shown).size).toBe(2);
  for (const encoding of ['hex', 'base64url'] as const)
    for (const hash of shown)
      expect(createHash('sha256').update(ADDRESS).digest(encoding)).not.toContain(hash.slice(1));
});

test('instances on one Redis show the same hashes, also after a restart', async () => {
  const redis = await startRedis();
  closers.push(() => redis.stop());
  const env = { BACKEND_TYPE: 'redis', REDIS_URL: redis.url, STORE_TIMEOUT: '10s' };
  const [one, other] = [await start(env), await start(env)];
  await Promise.all([ask(one), ask(other)]);
  const [hash, ...more] = await hashes(one);
  expect(more).toEqual([]);
  expect(await hashes(other)).toEqual([hash]);
  const third = await start(env);
  await ask(third);
  expect(await hashes(third)).toEqual([hash]);
});

test('workers show the same hash', async () => {
  const redis = await startRedis();
  closers.push(() => redis.stop());
  const weir = await start({ BACKEND_TYPE: 'redis', REDIS_URL: redis.url, STORE_TIMEOUT: '10s', WORKERS: '2' });
  for (let count = 0; count < 10; count++) await ask(weir);
  const isCounted = async (): Promise<boolean> => {
    const stats = await (await fetch(`http://127.0.0.1:${weir.debugPort}/stats`)).text();
    return /address_#[\w-]+\.total_hits: 10\n/.test(stats);
  };
  await until('ten hits under one hash', isCounted);
});

test('on memcached, all pages of a service show the same hash', async () => {
  const memcached = await startMemcached();
  closers.push(() => memcached.stop());
  const env = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: `127.0.0.1:${memcached.port}`, STORE_TIMEOUT: '10s' };
  const weir = await start({ ...env, ADMIN_TOKEN: 'token' });
  await ask(weir);
  const [shown] = await hashes(weir);
  const url = `http://127.0.0.1:${weir.debugPort}/api/v1/overrides`;
  const headers = { authorization: 'Bearer token' };
  const descriptor = [{ key: 'address', value: ADDRESS }];
  const untilTime = new Date(Date.now() + 3_600_000).toISOString();
  const body = JSON.stringify({ domain: 'demo', descriptor, effect: 'block', until: untilTime, reason: 'abuse' });
  expect((await fetch(url, { method: 'PUT', headers, body })).status).toBeLessThan(300);
  expect(await (await fetch(url, { headers })).text()).toContain(shown);
});
