import '../../helpers/realm.ts';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { Scope } from '../../../src/operate/admin/scope.ts';
import { eventually } from '../../helpers/until.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const rulesOf = (domain: string, key: string): string => `
domain: ${domain}
descriptors:
  - {key: ${key}, rate_limit: {unit: year, requests_per_unit: 1, name: ${key}-limit}}
`;

/** What belongs to the domain that the token is not for, in every name and value. */
const FOREIGN = /vault/i;

let folder: string;
let weir: Weir;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'domains-'));
  writeFileSync(join(folder, 'shop.yaml'), rulesOf('shop', 'user'));
  writeFileSync(join(folder, 'other.yaml'), rulesOf('vault', 'vaultkey'));
  const env = {
    ADMIN_TOKEN: 'ops:operate:whole,ann:operate@shop:own,ben:read@shop+till:two',
    ADMIN_IDENTITY_HEADER: 'X-Auth-Request-Email',
    ...{ AUDIT_LOG: join(folder, 'audit.jsonl'), EXPLAIN_SAMPLE: '100', ADVISE_BYTES: '1000000', USE_STATSD: 'false' },
    ...{ USAGE_DIR: join(folder, 'usage'), USAGE_INTERVAL: '100ms' },
  };
  weir = await startWeir(env, { args: ['--rules', folder] });
  for (const [domain, key, value] of [
    ['shop', 'user', 'alice'],
    ['vault', 'vaultkey', 'vaultvalue'],
    ['vault', 'vaultother', 'vaultvalue'],
    ['shop', 'usr', 'alice'],
  ] as const)
    for (let times = 0; times < 3; times++) await ask(domain, key, value);
  await override('whole', 'vault', 'vaultkey', 'vaultvalue');
  await override('own', 'shop', 'user', 'bob');
  await eventually(async () => (await page('/api/v1/series/rules', 'whole')).text.includes('vaultkey'));
});
afterAll(async () => {
  await weir.stop();
  rmSync(folder, { recursive: true });
});

const ask = (domain: string, key: string, value: string) =>
  fetch(`http://127.0.0.1:${weir.httpPort}/json`, {
    method: 'POST',
    body: JSON.stringify({ domain, descriptors: [{ entries: [{ key, value }] }] }),
  });

async function page(path: string, secret: string, init: RequestInit = {}) {
  const headers = { authorization: `Bearer ${secret}`, ...init.headers };
  const response = await fetch(`http://127.0.0.1:${weir.debugPort}${path}`, { ...init, headers });
  return { status: response.status, text: await response.text() };
}

const send = (method: string, path: string, secret: string, body: object, headers: Record<string, string> = {}) =>
  page(path, secret, { method, body: JSON.stringify(body), headers });

const change = (domain: string, key: string, value: string) => ({
  domain,
  descriptor: [{ key, value }],
  reason: `${domain} asked`,
});
const inAnHour = (): string => new Date(Date.now() + 3_600_000).toISOString();
const override = (secret: string, domain: string, key: string, value: string) =>
  send('PUT', '/api/v1/overrides', secret, { ...change(domain, key, value), effect: 'exempt', until: inAnHour() });

/** All paths that can be read without parameters. */
async function readablePaths(): Promise<readonly string[]> {
  const { paths } = JSON.parse((await page('/api/v1/openapi.json', 'whole')).text);
  return Object.keys(paths).filter(
    (path) => 'get' in paths[path] && path.startsWith('/api/') && !/events|openapi/.test(path),
  );
}

test('a token for one domain sees nothing of another one in any answer', async () => {
  const paths = await readablePaths();
  const answers = await Promise.all(paths.map(async (path) => ({ path, ...(await page(path, 'own')) })));
  expect(answers.filter(({ text }) => FOREIGN.test(text))).toEqual([]);
  const whole = await Promise.all(paths.map((path) => page(path, 'whole')));
  expect(whole.filter(({ text }) => FOREIGN.test(text)).length).toBeGreaterThan(8); // else the test shows nothing
});

test('a token for one domain sees its own domain as others do', async () => {
  for (const path of ['rules', 'top', 'refusals', 'unmatched', 'overrides', 'audit', 'counters', 'series/rules'])
    expect({ path, ...(await page(`/api/v1/${path}`, 'own')) }).toMatchObject({
      status: 200,
      text: expect.stringMatching(/shop|user|usr/),
    });
});

test('a token for one domain sees nothing of another one in the stream of the console', async () => {
  const stop = new AbortController();
  const { body } = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/events`, {
    headers: { authorization: 'Bearer own' },
    signal: stop.signal,
  });
  let text = '';
  for await (const chunk of body ?? []) {
    text += Buffer.from(chunk).toString();
    if (text.split('\n\ndata: ').length > 2) break;
  }
  stop.abort();
  expect(text).toContain('shop.user');
  expect(text).not.toMatch(FOREIGN);
});

test.each<[string, string, object]>([
  ['POST', '/api/v1/counters/reset', change('vault', 'vaultkey', 'a')],
  ['POST', '/api/v1/counters/grant', { ...change('vault', 'vaultkey', 'a'), hits: 1 }],
  ['DELETE', '/api/v1/overrides', change('vault', 'vaultkey', 'vaultvalue')],
  ['PUT', '/api/v1/overrides', { ...change('vault', 'vaultkey', 'a'), effect: 'block', until: inAnHour() }],
  ['POST', '/api/v1/usage/forget', change('vault', 'vaultkey', 'a')],
  ['POST', '/api/v1/explain', { domain: 'vault', descriptors: [{ entries: [{ key: 'vaultkey', value: 'a' }] }] }],
  ['PUT', '/api/v1/recording', { until: inAnHour(), reason: 'for all domains' }],
])('a token for another domain is refused by %s %s', async (method, path, body) => {
  expect(await send(method, path, 'own', body)).toMatchObject({
    status: 403,
    text: expect.stringMatching(/the token of 'ann' is for the domain shop/),
  });
});

test('a token for one domain tries and reads only candidates of its domain', async () => {
  const post = (secret: string, text: string) =>
    page('/api/v1/candidate?reason=try', secret, { method: 'POST', body: text });
  expect((await post('own', rulesOf('vault', 'vaultkey'))).status).toBe(403);
  expect((await post('own', rulesOf('shop', 'user'))).status).toBe(200);
  expect((await post('whole', rulesOf('vault', 'vaultkey'))).status).toBe(200);
  for (const path of ['candidate', 'candidate/text', 'candidate/diff']) {
    const { status, text } = await page(`/api/v1/${path}`, 'own');
    expect(status).toBe(403);
    expect(text).toContain('the service tries one candidate at a time');
    expect(text).not.toMatch(FOREIGN);
  }
  const end = (secret: string) => send('DELETE', '/api/v1/candidate', secret, { reason: 'end' });
  expect((await end('own')).status).toBe(403);
  expect((await end('whole')).status).toBe(200);
});

test('a token for one domain sees no reason of a change whose domains are not known', async () => {
  expect((await send('DELETE', '/api/v1/candidate', 'whole', { reason: 'vault is done' })).status).toBe(200);
  expect((await page('/api/v1/audit', 'whole')).text).toContain('vault is done');
  expect((await page('/api/v1/audit', 'own')).text).not.toMatch(FOREIGN);
});

test('a token for two domains names one of them where an operation is about one', async () => {
  expect(await page('/api/v1/counters', 'two')).toMatchObject({
    status: 400,
    text: expect.stringContaining('is for the domains shop, till: name one of them as domain'),
  });
  expect((await page('/api/v1/counters?domain=shop', 'two')).text).toContain('shop.user');
});

test('the session says for which domains a token is', async () => {
  expect(JSON.parse((await page('/api/v1/session', 'own')).text)).toMatchObject({ role: 'operate', domains: ['shop'] });
});

test('the person whom an authenticating proxy names is the one in the audit log', async () => {
  const named = { 'x-auth-request-email': 'anna@example.com' };
  await send('POST', '/api/v1/counters/reset', 'own', change('shop', 'user', 'alice'), named);
  const { changes } = JSON.parse((await page('/api/v1/audit', 'own')).text);
  expect(changes[0]).toMatchObject({ who: 'anna@example.com', change: 'reset' });
  const twice = { 'x-auth-request-email': 'eve@example.com, anna@example.com' };
  expect((await send('POST', '/api/v1/counters/reset', 'own', change('shop', 'user', 'a'), twice)).status).toBe(403);
});

test.each(['José', 'Łukasz', '李 雷'])('a person with the name %s is in the audit log by this name', async (name) => {
  const named = { 'x-auth-request-email': Buffer.from(name).toString('latin1') };
  await send('POST', '/api/v1/counters/reset', 'own', change('shop', 'user', 'alice'), named);
  const { changes } = JSON.parse((await page('/api/v1/audit', 'own')).text);
  expect(changes[0].who).toBe(name);
});

test.each(['a'.repeat(201), 'a\u202eb', 'a\u2028b', 'a\tb'])(
  'a name that is too long or changes how lines are shown is refused: %j',
  async (name) => {
    const named = { 'x-auth-request-email': Buffer.from(name).toString('latin1') };
    expect((await send('POST', '/api/v1/counters/reset', 'own', change('shop', 'user', 'a'), named)).status).toBe(403);
  },
);

test('a rule belongs to the domain in force whose name its path begins with', () => {
  const domains = new Map([['shop', {}]]) as unknown as RuleTree['domains']; // only names matter
  const scope = (name: string) => new Scope({ name: 'ann', domains: [name] }, () => ({ domains, rules: [] }));
  expect(scope('shop').hasRule('shop.eu.user')).toBe(true);
  expect(scope('shop.eu').hasRule('shop.eu.user')).toBe(false);
  expect(scope('gone').hasRule('gone.user')).toBe(true);
});
