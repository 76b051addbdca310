import '../../helpers/realm.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: method, match: any_order, descriptors: [{key: path, descriptors: [{key: app, rate_limit: {unit: year, requests_per_unit: 2}}]}]}
  - {key: file, value: public/*, share_threshold: true, rate_limit: {unit: year, requests_per_unit: 2}}
`;

let redis: Redis;
let service: Administered;
beforeAll(async () => {
  redis = await startRedis();
  service = await startAdministered(RULES, { REDIS_URL: redis.url, WORKERS: '2' });
});
afterAll(async () => {
  await service.stop();
  await redis.stop();
});

const token = { authorization: 'Bearer token' };

async function set(domain: string, key: string, value: string, effect: object): Promise<void> {
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const body = { domain, descriptor: [{ key, value }], until, reason: 'case\n7', ...effect };
  expect(await service.call('PUT', '/api/v1/overrides', body)).toMatchObject({ status: 200 });
}

const page = async (path: string, headers: Record<string, string> = {}) =>
  (await fetch(`http://127.0.0.1:${service.weir.debugPort}${path}`, { headers })).text();

const ask = (key: string, value: string): Promise<number> =>
  service.ask({ domain: 'demo', descriptors: [{ entries: [{ key, value }] }] });

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

test('an override of entries in any order applies to all orders, and is removed by any', async () => {
  const entriesOf = (...keys: readonly string[]) => keys.map((key) => ({ key, value: 'x' }));
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const body = { domain: 'demo', reason: 'a test', descriptor: entriesOf('method', 'app', 'path') };
  await service.call('PUT', '/api/v1/overrides', { ...body, effect: 'block', until });
  const askFor = (...keys: readonly string[]) =>
    service.ask({ domain: 'demo', descriptors: [{ entries: entriesOf(...keys) }] });
  expect([await askFor('method', 'path', 'app'), await askFor('method', 'app', 'path')]).toEqual([429, 429]);
  const other = { ...body, descriptor: entriesOf('method', 'path', 'app') };
  expect(await service.call('DELETE', '/api/v1/overrides', other)).toMatchObject({ status: 200 });
  expect([await askFor('method', 'path', 'app'), await askFor('method', 'app', 'path')]).toEqual([200, 200]);
  expect(await askFor('method', 'app', 'path')).toBe(429); // the third hit of one counter
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
