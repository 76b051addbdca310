import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { type IncomingHttpHeaders, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseAuthzMapping } from '../../../src/parts/authz/route.ts';
import { compileRegExp } from '../../../src/parts/lab/mapping/mapping-block.ts';
import { MAIN, startWeir } from '../../helpers/weir.ts';

const RULES = `domain: web
require: { keys: [user], per: [remote_address], limit: { unit: day, requests_per_unit: 1 } }
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: user, value: 東京, rate_limit: { algorithm: token_bucket, unit: year, requests_per_unit: 1, soft: 1 } }
  - { key: slow, rate_limit: { algorithm: sliding_window_log, unit: year, requests_per_unit: 1 } }
  - { key: path, value: /login, descriptors: [{ key: remote_address, rate_limit: { unit: day, requests_per_unit: 1 } }] }
`;
const MAPPING = `domain: web
rate_limits:
  - actions: [{ request_headers: { header_name: x-user, descriptor_key: user } }]
  - actions:
      - request_headers: { header_name: ":path", descriptor_key: path, regex: '^([^?]*)' }
      - remote_address: {}
  - actions: [{ request_headers: { header_name: x-slow, descriptor_key: slow, regex: '^(a+)+$' } }]
`;

const folder = mkdtempSync(join(tmpdir(), 'authz-'));
const write = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};
const rules = write('rules.yaml', RULES);
const mapping = write('mapping.yaml', MAPPING);

type Headers = Readonly<Record<string, string>>;

/** Node's own client, which sends exactly these headers. */
const ask = (port: number, headers: Headers, { method = 'GET', path = '/authz' } = {}) =>
  new Promise<{ status: number | undefined; headers: IncomingHttpHeaders }>((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, method, headers }, (response) => {
      response.resume();
      response.once('end', () => resolve({ status: response.statusCode, headers: response.headers }));
    });
    sent.once('error', reject);
    sent.end();
  });

/** A request of Traefik's forwardAuth: the headers of the client, also those of a browser on another site. */
const traefik = (address: string, uri: string, headers: Headers = {}): Headers => ({
  'user-agent': 'Mozilla/5.0',
  'sec-fetch-site': 'cross-site',
  origin: 'https://other.example',
  ...headers,
  'x-forwarded-for': address,
  'x-forwarded-host': 'shop.example',
  'x-forwarded-method': 'POST',
  'x-forwarded-proto': 'https',
  'x-forwarded-uri': uri,
});

test('answers forwardAuth and auth_request with 200, 429 or 403, and the headers of the tightest limit', async () => {
  const env = { USE_STATSD: 'false', AUTHZ_MAPPING: mapping };
  const weir = await startWeir(env, { args: ['--rules', rules] });
  try {
    const { httpPort: port } = weir;
    const ann = traefik('10.0.0.1', '/cart?id=1', { 'x-user': 'ann' });
    const first = await ask(port, ann);
    expect(first).toMatchObject({
      status: 200,
      headers: { 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '1', 'content-length': '0' },
    });
    expect(Number(first.headers['x-ratelimit-reset'])).toBeGreaterThan(0);
    const yearly = await ask(port, traefik('10.0.0.9', '/', { 'x-user': 'eve', 'x-slow': 'a' }));
    expect(yearly.headers['x-ratelimit-reset']).toBe(String(24 * 86_400)); // the timers of clients end at 2^31 ms
    const statuses = [await ask(port, ann), await ask(port, ann), await ask(port, ann, { path: '/authz?refused=403' })];
    expect(statuses.map(({ status }) => status)).toEqual([200, 429, 403]);
    expect(statuses[1]?.headers['x-ratelimit-remaining']).toBe('0');
    // the address is the one that the proxy appended, and the path has no query
    const login = (list: string) => ask(port, traefik(list, '/login?a=b', { 'x-user': 'bob' }), { method: 'POST' });
    expect([(await login('6.6.6.6, 10.0.0.2')).status, (await login('7.7.7.7, 10.0.0.2')).status]).toEqual([200, 429]);
    // no user: the limit of `require`, by address
    const nobody = (address: string) => ask(port, traefik(address, '/cart'), { method: 'HEAD' });
    expect([(await nobody('10.0.0.3')).status, (await nobody('10.0.0.3')).status]).toEqual([200, 429]);
    expect((await nobody('10.0.0.4')).status).toBe(200);
    expect((await ask(port, {})).status).toBe(200); // without any descriptor, counted as missing the user
    expect((await ask(port, {})).status).toBe(429);
    // a rule whose name no header can have as it is
    const tokyo = traefik('10.0.0.5', '/cart', { 'x-user': Buffer.from('東京').toString('latin1') });
    expect((await ask(port, tokyo)).headers['x-ratelimit-soft-exceeded']).toBeUndefined();
    expect(await ask(port, tokyo)).toMatchObject({
      status: 200,
      headers: { 'x-ratelimit-soft-exceeded': 'web.user_%E6%9D%B1%E4%BA%AC' },
    });
    // a pattern that JavaScript would try for years
    expect((await ask(port, { 'x-user': 'eve', 'x-slow': `${'a'.repeat(5_000)}!` })).status).toBe(200);
  } finally {
    await weir.stop();
  }
});

test('a service with a mapping that is wrong does not start, and says why; without one there is no endpoint', async () => {
  const wrong = write('wrong.yaml', MAPPING.replace('request_headers', 'request_header'));
  const ports = { PORT: '0', GRPC_PORT: '0', DEBUG_PORT: '0' };
  const env = { PATH: process.env.PATH, ...ports, USE_STATSD: 'false', AUTHZ_MAPPING: wrong };
  const failed = await promisify(execFile)(process.execPath, [MAIN, 'serve', '--rules', rules], { env }).then(
    () => undefined,
    (error: { code: number; stderr: string }) => error,
  );
  expect(failed).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/AUTHZ_MAPPING: cannot use '.*': .*wrong.yaml:3: .*got 'request_header'/),
  });
  const weir = await startWeir({ USE_STATSD: 'false' }, { args: ['--rules', rules] });
  try {
    expect((await ask(weir.httpPort, {})).status).toBe(404);
  } finally {
    await weir.stop();
  }
});

test.each([
  ['rate_limits: [{ actions: [{ remote_address: {} }] }]', 'expected domain, a non-empty text, got none'],
  ['domain: d', 'expected rate_limits, a list that is not empty, got none'],
  [
    "domain: d\nrate_limits: [{ actions: [{ request_headers: { header_name: a, descriptor_key: b, regex: '(' } }] }]",
    'expected a regular expression',
  ],
  ['domain: d\nlabel: { field: x }\nrate_limits: [{ actions: [{ remote_address: {} }] }]', "unknown key 'label'"],
  [
    `domain: d\nrate_limits: [${'{ actions: [{ remote_address: {} }] },'.repeat(257)}]`,
    'expected at most 256 rate_limits, got 257',
  ],
])('the mapping %j is wrong: %s', (text, message) => {
  const parsed = parseAuthzMapping('mapping.yaml', text, compileRegExp);
  expect('problems' in parsed && parsed.problems.map((problem) => problem.message)).toEqual([
    expect.stringContaining(message),
  ]);
});

const distinct = (headers: Readonly<Record<string, string>>): Record<string, string[]> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]));

test('other spellings of a path and of an address have no counters of their own', () => {
  const text = MAPPING.replace('[^?]', '[^?;]');
  const parsed = parseAuthzMapping('mapping.yaml', text, compileRegExp);
  if (!('mapping' in parsed)) throw new Error(JSON.stringify(parsed.problems));
  const entries = (address: string, uri: string) =>
    parsed.mapping(distinct(traefik(address, uri))).descriptors.map((one) => one.entries.map(({ value }) => value));
  for (const uri of [
    '/login',
    '/%6cogin',
    '//login',
    '/a/..//login',
    '/login;x',
    '/login#x',
    '/a\\..\\login',
    'http://shop/login',
  ])
    expect([uri, entries('10.0.0.1', uri)]).toEqual([uri, [['/login', '10.0.0.1']]]);
  for (const address of ['203.0.113.1:4711', '6.6.6.6, ::ffff:203.0.113.1', '[::ffff:203.0.113.1]:80'])
    expect(entries(address, '/login')).toEqual([['/login', '203.0.113.1']]);
  for (const address of ['2001:db8::1', '[2001:db8::2]:4711', '2001:0DB8::ffff%eth0'])
    expect(entries(address, '/login')).toEqual([['/login', '2001:db8::/64']]);
});

test('a repeated header has its first value, and text is UTF-8', () => {
  const text =
    'domain: d\nrate_limits: [{ actions: [{ request_headers: { header_name: X-User, descriptor_key: user } }] }]';
  const parsed = parseAuthzMapping('mapping.yaml', text, compileRegExp);
  if (!('mapping' in parsed)) throw new Error(JSON.stringify(parsed.problems));
  const latin1 = Buffer.from('Zoë').toString('latin1'); // as Node reads headers
  const entry = { key: 'user', value: 'Zoë' };
  expect(parsed.mapping({ 'x-user': [latin1, 'bob'] }).descriptors).toMatchObject([{ entries: [entry] }]);
});

test('other proxies name the headers that they set', () => {
  const text = `domain: d
fields: { remote_address: X-Real-IP, headers: { ":path": x-original-uri } }
rate_limits: [{ actions: [{ remote_address: {} }, { request_headers: { header_name: ":path", descriptor_key: path } }] }]
`;
  const parsed = parseAuthzMapping('mapping.yaml', text, compileRegExp);
  if (!('mapping' in parsed)) throw new Error(JSON.stringify(parsed.problems));
  const headers = { 'x-real-ip': ['10.0.0.1'], 'x-forwarded-for': ['6.6.6.6'], 'x-original-uri': ['/a'] };
  expect(parsed.mapping(headers).descriptors.map(({ entries }) => entries)).toEqual([
    [
      { key: 'remote_address', value: '10.0.0.1' },
      { key: 'path', value: '/a' },
    ],
  ]);
});
