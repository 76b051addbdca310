import '../../helpers/realm.ts';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashValue } from '../../../src/base/hashed.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, value_to_metric: true, rate_limit: {unit: year, requests_per_unit: 2, alignment: first_hit}}
  - {key: account, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: account, value: house, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 2}}
`;

/** Part of every value that a test sends. */
const SECRET = 'anna.smith';
const hashed = (value: string): string => hashValue(value, 'a key');
/** A value as it is shown. */
const HASH = /#[\w-]{16}/;

let folder: string;
let service: Administered;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hash-keys-'));
  const env = {
    ...{ HASH_KEYS: 'true', HASH_KEY: 'a key', AUDIT_LOG: join(folder, 'audit.jsonl') },
    ...{ EXPLAIN_SAMPLE: '100', DECISION_LOG: 'all', LOG_LEVEL: 'debug', LOG_FORMAT: 'json' },
  };
  service = await startAdministered(RULES, env);
  for (let times = 0; times < 4; times++) {
    await ask([{ entries: [pair('user', SECRET)] }, { entries: [pair('account', SECRET)] }]);
    await ask([{ entries: [pair('account', 'house')] }, { entries: [pair('usr', SECRET)] }]);
  }
  await ask([{ entries: [pair('user', SECRET)], limit: { requests_per_unit: 1, unit: 'HOUR' } }]);
  await ask([{ entries: [pair('account', SECRET), pair('deeper', SECRET)] }]);
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const descriptor = [pair('user', `${SECRET}@b`)];
  await call('PUT', '/api/v1/overrides', { domain: 'demo', descriptor, effect: 'block', until, reason: 'abuse' });
});
afterAll(() => service.stop());

const pair = (key: string, value: string) => ({ key, value });

const ask = (descriptors: readonly object[]) => service.ask({ domain: 'demo', descriptors });

const page = async (path: string, headers: Record<string, string> = { authorization: 'Bearer token' }) =>
  (await fetch(`http://127.0.0.1:${service.weir.debugPort}${path}`, { headers })).text();

const call: Administered['call'] = (...asked) => service.call(...asked);

test.each([
  '/stats',
  '/metrics',
  '/rlconfig',
  '/rlconfig?verbose',
  '/rlconfig?format=json',
  '/api/v1/unmatched',
  '/api/v1/top',
  '/api/v1/refusals',
  '/api/v1/counters',
  '/api/v1/overrides',
  '/api/v1/audit',
])('%s has hashes instead of values', async (path) => {
  const shown = await page(path);
  expect(shown).toMatch(HASH);
  expect(shown).not.toContain(SECRET);
});

test('offenders cannot be listed without their addresses', async () => {
  const detail = 'HASH_KEYS hides the addresses of callers: offenders cannot be listed';
  expect(JSON.parse(await page('/api/v1/offenders'))).toMatchObject({ status: 409, detail });
});

test('views show the hash of each value, so that one view can be searched for what another shows', async () => {
  const user = `user=${hashed(SECRET)}`;
  for (const path of ['/api/v1/top', '/api/v1/top?by=refusals']) {
    const { rules } = JSON.parse(await page(path));
    const shown = rules.flatMap(({ keys }: { keys: { descriptor: string }[] }) => keys).map(descriptorOf);
    expect(shown).toContain(user);
  }
  const { refusals } = JSON.parse(await page('/api/v1/refusals'));
  expect(JSON.stringify(refusals)).toContain(JSON.stringify({ key: 'user', value: hashed(SECRET) }));
});

const descriptorOf = ({ descriptor }: { readonly descriptor: string }): string => descriptor;

test.each([
  ['POST', '/api/v1/counters/reset', {}],
  ['POST', '/api/v1/counters/grant', { hits: 1 }],
  ['PUT', '/api/v1/overrides', { effect: 'block', until: new Date(Date.now() + 3_600_000).toISOString() }],
])('%s %s refuses a value that looks like a hash, since the text itself would be used', async (method, path, more) => {
  const descriptor = [pair('user', hashed(SECRET))];
  expect(await call(method, path, { domain: 'demo', descriptor, reason: 'a test', ...more })).toMatchObject({
    status: 400,
    body: { detail: `'${hashed(SECRET)}' is how HASH_KEYS shows a value: give the value itself` },
  });
});

test('statistics keep the values that a rule names', async () => {
  const stats = await page('/stats');
  expect(stats).toContain('demo.account_house.total_hits: 4');
  expect(stats).toMatch(/demo\.user_#[\w-]{16}\.total_hits: 5/);
  expect(stats).toMatch(/demo\.account_#[\w-]{16}\.total_hits: 4/);
});

test('logs and the audit log have hashes instead of values', async () => {
  await service.weir.waitFor('"code":"OVER_LIMIT"');
  await service.weir.waitFor('got descriptor: (user=#');
  expect(service.weir.output()).toMatch(/"key":"[^"]*#[\w-]{16}/);
  expect(service.weir.output()).toContain('the descriptor continues below the last rule');
  expect(service.weir.output()).not.toContain(SECRET);
  const audit = readFileSync(join(folder, 'audit.jsonl'), 'utf8');
  expect(audit).toMatch(HASH);
  expect(audit).not.toContain(SECRET);
});

test('requests are still matched, counted and overridden by plain values', async () => {
  expect(await ask([{ entries: [pair('user', `${SECRET}@b`)] }])).toBe(429);
  const explained = await call('POST', '/api/v1/explain', {
    domain: 'demo',
    descriptors: [{ entries: [pair('account', SECRET)] }],
  });
  expect(explained.body).toMatchObject({ status: 429, descriptors: [{ limits: [{ before: { used: 4 } }] }] });
});

test('an override is removed by its hashed name', async () => {
  const { overrides } = JSON.parse(await page('/api/v1/overrides'));
  const { domain, entries } = overrides[0];
  const removed = await call('DELETE', '/api/v1/overrides', { domain, descriptor: entries, reason: 'over' });
  expect(removed).toMatchObject({ status: 200, body: { effect: 'block', entries } });
  expect(JSON.parse(await page('/api/v1/overrides'))).toEqual({ overrides: [] });
});
