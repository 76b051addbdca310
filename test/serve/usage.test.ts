import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import type { UsageAnswer } from '../../src/operate/answers/usage.ts';
import { createClient } from '../helpers/grpc-client.ts';
import { type Postgres, startPostgres } from '../helpers/postgres.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { startCluster } from '../helpers/redis-topologies.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

const RULES = `domain: shop
descriptors:
  - key: user
    rate_limits:
      - { unit: second, requests_per_unit: 1000 }
      - { unit: year, requests_per_unit: 10 }
  - key: lookup
    unit_cost: 0.0125 USD
    rate_limit: { unit: year, budget: 100 USD }
  - key: team
    rate_limit: { unit: year, requests_per_unit: 1000 }
  - key: tenant
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { unit: year, requests_per_unit: 1000, reserve: { ttl: 60s } }
        descriptors:
          - { key: used, not_counted: commit }
`;

let folder: string;
let redis: Redis;
let postgres: Postgres;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'usage-'));
  await writeFile(join(folder, 'rules.yaml'), RULES);
  [redis, postgres] = await Promise.all([startRedis(), startPostgres()]);
});
afterAll(async () => {
  await Promise.all([redis.stop(), postgres.stop(), rm(folder, { recursive: true })]);
});

const closing: (() => Promise<void>)[] = [];
const services: Weir[] = [];
afterEach(async () => {
  for (const weir of services.splice(0)) await weir.stop();
  for (const close of closing.splice(0)) await close();
});

async function start(env: Readonly<Record<string, string>>): Promise<Weir> {
  const common = { USAGE_INTERVAL: '100ms', USE_STATSD: 'false' };
  const weir = await startWeir({ ...common, ...env }, { args: ['--rules', join(folder, 'rules.yaml')] });
  services.push(weir);
  return weir;
}

async function ask({ grpcPort }: Weir, entries: Readonly<Record<string, string>>, hits: number): Promise<void> {
  const client = createClient(`127.0.0.1:${grpcPort}`);
  const list = Object.entries(entries).map(([key, value]) => ({ key, value }));
  await client.send({
    domain: 'shop',
    descriptors: [{ entries: list, limit: null, hits_addend: { value: Math.abs(hits) }, is_negative_hits: hits < 0 }],
    hits_addend: 1,
  });
  client.close();
}

async function usageOf({ debugPort }: Weir, ...args: readonly string[]): Promise<string> {
  const all = [MAIN, 'usage', '--target', `127.0.0.1:${debugPort}`, ...args];
  return (await promisify(execFile)(process.execPath, all)).stdout;
}

/** Waits for a report of the API, which takes less time than `weir usage`. */
const untilReported = (weir: Weir, isExpected: (report: UsageAnswer) => boolean, token = '') =>
  weir.waitFor(async () => {
    const headers = token === '' ? {} : { authorization: `Bearer ${token}` };
    const answer = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/usage`, { headers });
    return answer.ok && isExpected((await answer.json()) as UsageAnswer); // as the API documents
  });
const settled = (weir: Weir, hits: number, token?: string) =>
  untilReported(weir, (report) => report.hits === hits, token);

const places: Readonly<Record<string, () => Promise<Readonly<Record<string, string>>>>> = {
  'files, counted in memory': async () => ({ USAGE_DIR: join(folder, 'memory') }),
  'files, counted in Redis': async () => ({ USAGE_DIR: join(folder, 'redis'), REDIS_URL: redis.url, WORKERS: '2' }),
  'files, counted in a Redis Cluster': async () => {
    const { nodes, stop } = await startCluster();
    closing.push(stop);
    const env = { REDIS_TYPE: 'CLUSTER', REDIS_URL: nodes.map(({ url }) => url).join(','), CLUSTER_HASH_TAG: 'domain' };
    return { USAGE_DIR: join(folder, 'cluster'), CACHE_KEY_PREFIX: 'w:', ...env };
  },
  PostgreSQL: async () => ({
    USAGE_URL: await postgres.createDatabase(),
    REDIS_URL: redis.url,
    CACHE_KEY_PREFIX: 'postgres:',
  }),
};

test.each(Object.entries(places))('usage in %s is what limits have admitted', async (_, place) => {
  const env = await place();
  const weir = await start(env);
  for (const hits of [4, 5, 1, 3]) await ask(weir, { user: 'alice' }, hits); // the last is refused
  await ask(weir, { user: '=1+1,"b"' }, 2);
  await ask(weir, { user: 'alice' }, -1);
  await ask(weir, { tenant: 'acme', request_id: 'r1' }, 500);
  await ask(weir, { tenant: 'acme', request_id: 'r1', used: 'tokens' }, 321);
  await settled(weir, 9 + 2 + 321);
  const until = ['--from', '2026-01-01', '--to', '9999-01-01'];
  expect(await usageOf(weir, '--csv', ...until)).toBe(
    [
      'domain,rule,key,hits',
      'shop,shop.tenant.request_id,tenant=acme,321',
      'shop,shop.user,user=alice,9',
      'shop,shop.user,"user==1+1\\,""b""",2',
      '',
    ].join('\n'),
  );
  expect(await usageOf(weir, '--by', 'rule', '--rule', 'shop.user', ...until)).toContain('11  shop.user');
  const hours = JSON.parse(await usageOf(weir, '--json', '--per', 'hour', '--key', 'user=alice', ...until));
  expect(hours).toMatchObject({ hits: 9, more: 0 });
  await weir.stop();
  const again = await start(env); // counters in memory begin anew, usage does not
  await settled(again, 9 + 2 + 321);
});

test('usage of a budget is shown as money, beside hits', async () => {
  const weir = await start({ REDIS_URL: redis.url, CACHE_KEY_PREFIX: 'money:', USAGE_DIR: join(folder, 'money') });
  await ask(weir, { user: 'alice' }, 3);
  await ask(weir, { lookup: 'acme' }, 1_001);
  await ask(weir, { lookup: 'acme' }, -1);
  await ask(weir, { lookup: 'other' }, 3);
  await ask(weir, { lookup: 'other' }, 8_000); // refused
  await untilReported(weir, ({ spent }) => spent?.USD === 12_537_500_000);
  const until = ['--from', '2026-01-01', '--to', '9999-01-01'];
  expect(await usageOf(weir, '--csv', ...until)).toBe(
    [
      'domain,rule,key,hits,cost,currency',
      'shop,shop.lookup,lookup=acme,,12.50,USD',
      'shop,shop.lookup,lookup=other,,0.0375,USD',
      'shop,shop.user,user=alice,3,,',
      '',
    ].join('\n'),
  );
  expect(await usageOf(weir, ...until)).toMatch(
    /^3 hits, 12.5375 USD from .*\n *12.50 USD {2}lookup=acme {2}shop.lookup\n/,
  );
});

test('unused hits of a lease are not usage once they have been given back', async () => {
  const env = { REDIS_URL: redis.url, CACHE_KEY_PREFIX: 'leased:', CONSISTENCY: 'leased' };
  const weir = await start({ ...env, USAGE_DIR: join(folder, 'leased') });
  for (let at = 0; at < 200; at++) await ask(weir, { team: 'red' }, 1);
  await settled(weir, 200);
});

test('values are hashed with HASH_KEYS, and no other user can read the files', async () => {
  const directory = join(folder, 'hashed');
  const weir = await start({ USAGE_DIR: directory, HASH_KEYS: 'true', HASH_KEY: 'secret' });
  await ask(weir, { user: 'alice' }, 3);
  await settled(weir, 3);
  expect(await usageOf(weir, '--csv')).toMatch(/,user=#[\w-]{16},3\n/);
  for (const name of await readdir(directory)) {
    expect((await stat(join(directory, name))).mode & 0o077).toBe(0);
    if (name.endsWith('.gz'))
      expect(gunzipSync(await readFile(join(directory, name))).toString()).not.toContain('alice');
  }
});

test('weir forget deletes counters and usage of a key, collected or not, and of no other one', async () => {
  const env = { REDIS_URL: redis.url, CACHE_KEY_PREFIX: 'forget:', HASH_KEYS: 'true', HASH_KEY: 'secret' };
  const weir = await start({ ...env, USAGE_DIR: join(folder, 'forget'), ADMIN_TOKEN: 'token' });
  const [target, token] = [
    ['--target', `127.0.0.1:${weir.debugPort}`],
    ['--token', 'token'],
  ];
  await ask(weir, { user: 'alice' }, 3);
  await ask(weir, { user: 'bob' }, 4);
  await settled(weir, 7, 'token');
  await ask(weir, { user: 'alice' }, 2); // not collected yet
  const args = [MAIN, 'forget', 'shop', 'user=alice', '--reason', 'test', ...target, ...token];
  expect((await promisify(execFile)(process.execPath, args)).stdout).toMatch(
    /^2 counters reset\n\d rows of usage deleted\n$/,
  );
  expect(JSON.parse(await usageOf(weir, '--json', ...token)).hits).toBe(4);
  const state = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/counters?domain=shop&descriptor=user=alice`, {
    headers: { authorization: 'Bearer token' },
  });
  expect(((await state.json()) as { counters: { used: number }[] }).counters.map(({ used }) => used)).toEqual([0, 0]);
});

test('an instance that only counts leaves usage to another one, and says so', async () => {
  const env = { REDIS_URL: redis.url, CACHE_KEY_PREFIX: 'shared:' };
  const [keeps, counts] = [
    await start({ ...env, USAGE_DIR: join(folder, 'kept') }),
    await start({ ...env, USAGE: 'true' }),
  ];
  await ask(keeps, { user: 'alice' }, 1);
  await ask(counts, { user: 'alice' }, 2);
  await settled(keeps, 3);
  await expect(usageOf(counts)).rejects.toThrow('this instance keeps no usage: set USAGE_DIR or USAGE_URL');
});
