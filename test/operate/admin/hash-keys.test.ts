import '../../helpers/realm.ts';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashValue } from '../../../src/base/hashed.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

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
let weir: Weir;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hash-keys-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const env = {
    ...{
      ADMIN_TOKEN: 'token',
      HASH_KEYS: 'true',
      HASH_KEY: 'a key',
      USE_STATSD: 'false',
      AUDIT_LOG: join(folder, 'audit.jsonl'),
    },
    ...{ EXPLAIN_SAMPLE: '100', DECISION_LOG: 'all', LOG_LEVEL: 'debug', LOG_FORMAT: 'json' },
  };
  weir = await startWeir(env, { args: ['--rules', join(folder, 'rules.yaml')] });
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
afterAll(async () => {
  await weir.stop();
});

const pair = (key: string, value: string) => ({ key, value });

const ask = (descriptors: readonly object[]) =>
  fetch(`http://127.0.0.1:${weir.httpPort}/json`, {
    method: 'POST',
    body: JSON.stringify({ domain: 'demo', descriptors }),
  });

const page = async (path: string, headers: Record<string, string> = { authorization: 'Bearer token' }) =>
  (await fetch(`http://127.0.0.1:${weir.debugPort}${path}`, { headers })).text();

async function call(method: string, path: string, body: object) {
  const headers = { authorization: 'Bearer token' };
  const url = `http://127.0.0.1:${weir.debugPort}${path}`;
  const answer = await fetch(url, { method, headers, body: JSON.stringify(body) });
  return { status: answer.status, body: JSON.parse(await answer.text()) };
}

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
  await weir.waitFor('"code":"OVER_LIMIT"');
  await weir.waitFor('got descriptor: (user=#');
  expect(weir.output()).toMatch(/"key":"[^"]*#[\w-]{16}/);
  expect(weir.output()).toContain('the descriptor continues below the last rule');
  expect(weir.output()).not.toContain(SECRET);
  const audit = readFileSync(join(folder, 'audit.jsonl'), 'utf8');
  expect(audit).toMatch(HASH);
  expect(audit).not.toContain(SECRET);
});

test('requests are still matched, counted and overridden by plain values', async () => {
  expect((await ask([{ entries: [pair('user', `${SECRET}@b`)] }])).status).toBe(429);
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
