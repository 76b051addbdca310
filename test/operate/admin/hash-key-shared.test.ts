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

test('instances that use one Redis after each other, and their workers, show the same hashes', async () => {
  const redis = await startRedis();
  closers.push(() => redis.stop());
  const env = { BACKEND_TYPE: 'redis', REDIS_URL: redis.url };
  const one = await start(env);
  await ask(one);
  const [hash, ...more] = await hashes(one);
  expect(more).toEqual([]);
  await one.stop();
  const other = await start({ ...env, WORKERS: '2' });
  for (let count = 0; count < 10; count++) await ask(other);
  await until('ten hits under the same hash', async () => {
    const stats = await (await fetch(`http://127.0.0.1:${other.debugPort}/stats`)).text();
    return stats.includes(`address_${hash}.total_hits: 10\n`);
  });
  expect(await hashes(other)).toEqual([hash]);
});

test('on memcached, all pages of a service show the same hash', async () => {
  const memcached = await startMemcached();
  closers.push(() => memcached.stop());
  const env = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: `127.0.0.1:${memcached.port}` };
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
