import '../../helpers/realm.ts';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { consoleFolder } from '../../../src/parts/console/assets.ts';
import { until } from '../../helpers/until.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({ ADMIN_TOKEN: 'ops:operate:s1,viewer:read:s2', USE_STATSD: 'false' });
});
afterAll(() => weir.stop());

const url = (path: string): string => `http://127.0.0.1:${weir.debugPort}${path}`;
const request = (path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(url(path), { redirect: 'manual', ...init });

const ask = (user: string, hits = 1): Promise<Response> =>
  fetch(`http://127.0.0.1:${weir.httpPort}/json`, {
    method: 'POST',
    body: JSON.stringify({
      domain: 'demo',
      hits_addend: hits,
      descriptors: [{ entries: [{ key: 'user', value: user }] }],
    }),
  });

/** The body of a response, whose fields the test checks. */
const bodyOf = async (response: Response | Promise<Response>) => JSON.parse(await (await response).text());

/** The snapshots of the event stream, as they arrive. */
async function* snapshots(headers: Record<string, string> = {}): AsyncGenerator<Record<string, never>> {
  const response = await request('/api/v1/events', { headers });
  expect(response.headers.get('content-type')).toBe('text/event-stream');
  let text = '';
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString();
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      if (event.startsWith('data: ')) yield JSON.parse(event.slice(6));
    }
  }
}

async function snapshotWhere(
  condition: (snapshot: never) => boolean,
  headers: Record<string, string> = {},
): Promise<never> {
  for await (const snapshot of snapshots(headers)) if (condition(snapshot as never)) return snapshot as never;
  throw new Error('the stream ended');
}

test('the banner has the address of the console', () => {
  expect(weir.output()).toContain(`  console   http://localhost:${weir.debugPort}/console/`);
});

test('the console takes at most 150 kB compressed, and every file is compressed', () => {
  const names = readdirSync(consoleFolder);
  const compressed = names.filter((name) => name.endsWith('.gz'));
  expect(compressed.length).toBe(names.length / 2);
  expect(compressed.reduce((sum, name) => sum + statSync(`${consoleFolder}/${name}`).size, 0)).toBeLessThan(150_000);
});

test('pages of the console may not load anything from other origins or run inline scripts', async () => {
  const response = await request('/console/');
  const policy = response.headers.get('content-security-policy') ?? '';
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("script-src 'self'");
  expect(policy).not.toContain('unsafe');
  expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  const page = await response.text();
  expect(page).not.toMatch(/<script(?![^>]*\bsrc=)/);
  expect(page).not.toMatch(/(src|href)="(\/|https?:)/); // so that it works behind a prefix
});

test('a file of the console is compressed for browsers that accept it, and not sent again', async () => {
  const response = await request('/console/app.js', { headers: { 'accept-encoding': 'gzip' } });
  const etag = response.headers.get('etag') ?? '';
  expect(response.headers.get('content-encoding')).toBe('gzip');
  expect(await response.text()).toBe(gunzipSync(readFileSync(`${consoleFolder}/app.js.gz`)).toString());
  const again = await request('/console/app.js', { headers: { 'accept-encoding': 'gzip', 'if-none-match': etag } });
  expect(again.status).toBe(304);
  const plain = await request('/console/app.js', { headers: { 'accept-encoding': 'identity' } });
  expect(plain.headers.get('content-encoding')).toBeNull();
  expect(plain.headers.get('etag')).not.toBe(etag);
});

test('the URL without a slash redirects to the console with a relative URL', async () => {
  const response = await request('/console');
  expect([response.status, response.headers.get('location')]).toEqual([308, 'console/']);
  expect((await request('/console/nothing.js')).status).toBe(404);
});

test('a snapshot has the clients with the most refused requests, for readers that may see values', async () => {
  const beforeMs = Date.now();
  await ask('stream', 6);
  await ask('stream', 1);
  const client = {
    rule: 'demo.user',
    descriptor: 'user=stream',
    entries: [{ key: 'user', value: 'stream' }],
    requests: 2,
    refusedShare: 1,
  };
  const isSeen = ({ refusedClients }: { refusedClients?: readonly { requests: number }[] }) =>
    refusedClients?.[0]?.requests === 2;
  const snapshot = (await snapshotWhere(isSeen as never, { authorization: 'Bearer s2' })) as {
    refusedClients: readonly { sinceMs: number }[];
  };
  expect(snapshot).toMatchObject({ refusedClients: [client], refused: { clients: 1, isAtLeast: false } });
  expect(snapshot.refusedClients[0]?.sinceMs).toBeGreaterThanOrEqual(beforeMs);
  const open = await snapshotWhere((() => true) as never);
  expect(open).not.toHaveProperty('refusedClients');
  expect(open).toMatchObject({ refused: { clients: 1 } });
  expect(JSON.stringify(open)).not.toContain('stream"');
  const series = '/api/v1/series?range=10m&rule=demo.user&descriptor=user=stream';
  expect(await bodyOf(request(series, { headers: { authorization: 'Bearer s2' } }))).toMatchObject({
    series: { refused: expect.any(Array) },
  });
  expect(await bodyOf(request(series))).toMatchObject({ series: {} });
});

test('the event stream is documented', async () => {
  const { paths } = await bodyOf(request('/api/v1/openapi.json'));
  expect(paths['/api/v1/events'].get.responses[200].content).toHaveProperty(['text/event-stream']);
});

test('without Redis the instances are the one that answers', async () => {
  expect(await bodyOf(request('/api/v1/instances'))).toMatchObject({ instances: [{ isThis: true, workers: 1 }] });
});

test('an illustration has what the limit of a rule decides about example requests', async () => {
  const { windowMs, capacity, hits, arrivals } = await bodyOf(request('/api/v1/rules/illustration?rule=demo.user'));
  expect({ windowMs, capacity, hits }).toEqual({ windowMs: 60_000, capacity: 5, hits: 1 });
  const firstWindow = arrivals.slice(0, 6).map(({ passed }: { passed: boolean }) => passed);
  expect(firstWindow).toEqual([true, true, true, true, true, false]);
  expect((await request('/api/v1/rules/illustration?rule=demo.none')).status).toBe(404);
});

test('series of the service and of a rule have the counts of answers', async () => {
  await ask('series', 2);
  const sumOf = (values: readonly number[] = []) => values.reduce((sum, value) => sum + value, 0);
  const isCounted = ({ active }: { active: readonly (readonly [string, number])[] }) =>
    active.some(([rule]) => rule === 'demo.user');
  await ask('series', 1);
  await snapshotWhere(((snapshot: never) => {
    void ask('series', 1);
    return isCounted(snapshot);
  }) as never);
  let service = await bodyOf(request('/api/v1/series?range=60s'));
  await until('a second with requests that passed, of the service and of the rule', async () => {
    service = await bodyOf(request('/api/v1/series?range=60s'));
    const rule = await bodyOf(request('/api/v1/series?rule=demo.user'));
    return sumOf(service.series.passed) > 0 && sumOf(rule.series.passed) > 0;
  });
  expect(service).toMatchObject({ range: '60s', stepMs: 1_000, startedAtMs: expect.any(Number) });
  expect((await request('/api/v1/series?range=2h')).status).toBe(400);
  expect(await bodyOf(request('/api/v1/series?range=7d'))).toMatchObject({
    detail: 'the query is not valid: the range 7d needs PROMETHEUS_URL',
  });
  const all = await bodyOf(request('/api/v1/series/rules'));
  expect(Object.keys(all.rules)).toContain('demo.user');
});

test('rules are listed with their levels, limits and places', async () => {
  const { rules, newest } = await bodyOf(request('/api/v1/rules'));
  expect(newest).toBe(true);
  expect(rules[0]).toMatchObject({
    path: 'demo.user',
    levels: ['user'],
    line: expect.any(Number),
    limits: [{ requests_per_unit: 5 }],
  });
});

test('a token signs a browser in, whose session can make changes with its csrf token', async () => {
  const wrong = await request('/api/v1/session', { method: 'POST', body: JSON.stringify({ token: 'no' }) });
  expect(wrong.status).toBe(403);
  const response = await request('/api/v1/session', { method: 'POST', body: JSON.stringify({ token: 's1' }) });
  const { csrf, role } = await bodyOf(response);
  const setCookie = response.headers.get('set-cookie') ?? '';
  expect(role).toBe('operate');
  expect(setCookie).toMatch(/; HttpOnly; SameSite=Strict$/);
  const cookie = setCookie.split(';')[0] ?? '';
  const change = (headers: Record<string, string>): Promise<Response> =>
    request('/api/v1/counters/reset', {
      method: 'POST',
      headers: { cookie, ...headers },
      body: JSON.stringify({ domain: 'demo', descriptor: [{ key: 'user', value: 'x' }], reason: 'r' }),
    });
  expect((await change({})).status).toBe(403);
  expect((await change({ 'x-weir-csrf': 'another' })).status).toBe(403);
  expect((await change({ 'x-weir-csrf': csrf, origin: 'http://evil.example' })).status).toBe(403);
  expect((await change({ 'x-weir-csrf': csrf })).status).toBe(200);
  expect(await (await request('/api/v1/session', { headers: { cookie } })).json()).toMatchObject({
    name: 'ops',
    role: 'operate',
    csrf,
  });
  await request('/api/v1/session', { method: 'DELETE', headers: { cookie } });
  expect((await change({ 'x-weir-csrf': csrf })).status).toBe(401);
});

test('a session of a read-only token cannot make changes', async () => {
  const response = await request('/api/v1/session', { method: 'POST', body: JSON.stringify({ token: 's2' }) });
  const { csrf } = await bodyOf(response);
  const cookie = (response.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  const headers = { cookie, 'x-weir-csrf': csrf };
  const body = JSON.stringify({ domain: 'demo', descriptor: [{ key: 'user', value: 'x' }], reason: 'r' });
  expect((await request('/api/v1/counters/reset', { method: 'POST', headers, body })).status).toBe(403);
  expect((await request('/api/v1/top', { headers })).status).toBe(200);
});
