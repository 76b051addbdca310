import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: file, value: public/*, share_threshold: true, rate_limit: {unit: year, requests_per_unit: 2}}
`;

let redis: Redis;
let folder: string;
let weir: Weir;
beforeAll(async () => {
  redis = await startRedis();
  folder = mkdtempSync(join(tmpdir(), 'overrides-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const env = { REDIS_URL: redis.url, ADMIN_TOKEN: 'token', USE_STATSD: 'false', WORKERS: '2' };
  weir = await startWeir(env, { args: ['--rules', join(folder, 'rules.yaml')] });
});
afterAll(async () => {
  await weir.stop();
  await redis.stop();
});

const token = { authorization: 'Bearer token' };

async function set(domain: string, key: string, value: string, effect: object): Promise<void> {
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const body = { domain, descriptor: [{ key, value }], until, reason: 'case\n7', ...effect };
  const url = `http://127.0.0.1:${weir.debugPort}/api/v1/overrides`;
  const answer = await fetch(url, { method: 'PUT', headers: token, body: JSON.stringify(body) });
  expect(answer.status).toBe(200);
}

const page = async (path: string, headers: Record<string, string> = {}) =>
  (await fetch(`http://127.0.0.1:${weir.debugPort}${path}`, { headers })).text();

const ask = async (key: string, value: string): Promise<number> => {
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key, value }] }] });
  return (await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body })).status;
};

test('overrides are shown with the rules and in metrics, with values only for clients with a token', async () => {
  await set('demo', 'user', 'alice', { effect: 'limit', requestsPerUnit: 5, unit: 'HOUR' });
  await set('demo', 'user', 'bob', { effect: 'block' });
  await set('nowhere', 'user', 'bob', { effect: 'block' });
  const lines = (await page('/rlconfig', token)).split('\n');
  expect(lines).toContainEqual(
    expect.stringMatching(/^# override: demo user=alice: 5 per hour until 2.*Z, set by admin: case 7$/),
  );
  expect(lines).toContain('demo.user: unit=YEAR requests_per_unit=2, shadow_mode: false, quota_mode: false');
  const open = await page('/rlconfig');
  expect(open).toContain('# override: demo user=(hidden): block until ');
  expect(open).toContain(', set by admin: (hidden)\n');
  expect(open).not.toMatch(/alice|bob|case/);
  const asJson = JSON.parse(await page('/rlconfig?format=json', token));
  expect(asJson.overrides).toContainEqual(
    expect.objectContaining({ domain: 'demo', descriptor: 'user=bob', effect: 'block', reason: 'case\n7' }),
  );
  const metrics = await page('/metrics');
  expect(metrics).toContain('weir_overrides{domain="demo",effect="limit"} 1\n');
  expect(metrics).toContain('weir_overrides{domain="demo",effect="block"} 1\n');
  expect(metrics).toContain('weir_overrides{domain="(other)",effect="block"} 1\n');
});

test("an override of a counter's listed name applies to all values that share the counter", async () => {
  expect(await ask('file', 'public/a')).toBe(200);
  const { counters } = JSON.parse(await page('/api/v1/counters?rule=demo.file_public/*', token));
  expect(counters).toMatchObject([{ entries: [{ key: 'file', value: 'public/*' }] }]);
  await set('demo', 'file', 'public/*', { effect: 'block' });
  expect([await ask('file', 'public/a'), await ask('file', 'public/b')]).toEqual([429, 429]);
  await set('demo', 'file', 'public/b', { effect: 'exempt' });
  expect([await ask('file', 'public/a'), await ask('file', 'public/b')]).toEqual([429, 200]);
});
