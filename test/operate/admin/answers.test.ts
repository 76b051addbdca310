import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Documented, documentOf } from '../../helpers/documented.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {name: per-user, unit: year, requests_per_unit: 2, alignment: first_hit}}
  - {key: path, value: /login*, rate_limits: [{unit: hour, requests_per_unit: 9}, {unit: year, requests_per_unit: 20, algorithm: token_bucket}]}
  - {key: log, rate_limit: {unit: hour, requests_per_unit: 9, algorithm: sliding_window_log}}
  - {key: parts, rate_limit: {unit: hour, requests_per_unit: 9, algorithm: sliding_window_counter}}
  - {key: slot, descriptors: [{key: id, not_counted: hold, rate_limit: {algorithm: in_flight, requests_per_unit: 2, ttl: 10s}}]}
  - {key: plan, value: gold, rate_limit: {unlimited: true}}
  - {key: dark, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: per-user}]}}
`;
const CANDIDATE = RULES.replace('requests_per_unit: 2,', 'requests_per_unit: 1,').replace(/ {2}- \{key: dark.*\n/, '');

let folder: string;
let redis: Redis;
let weir: Weir;
let documented: Documented;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'answers-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  redis = await startRedis();
  const env = {
    ...{ ADMIN_TOKEN: 'ops:operate:token', AUDIT_LOG: join(folder, 'audit.jsonl'), USE_STATSD: 'false' },
    ...{ REDIS_URL: redis.url, WORKERS: '2', EXPLAIN_SAMPLE: '100', RECORD_TO: join(folder, 'recordings') },
    ...{ ADVISE_BYTES: '4000000', RLQS: 'true', USAGE_DIR: join(folder, 'usage'), USAGE_INTERVAL: '100ms' },
  };
  weir = await startWeir(env, { args: ['--rules', join(folder, 'rules.yaml')] });
  documented = await documentOf(weir.debugPort);
});
afterAll(async () => {
  await weir.stop();
  await redis.stop();
});

async function call(method: string, path: string, body?: object | string) {
  const response = await fetch(`http://127.0.0.1:${weir.debugPort}${path}`, {
    method,
    headers: { authorization: 'Bearer token' },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  return {
    operation: `${method} ${path.split('?')[0]}`,
    status: response.status,
    type: response.headers.get('content-type'),
    answer: JSON.parse(await response.text()),
  };
}

const pair = (key: string, value = 'a') => ({ key, value });
const request = {
  domain: 'demo',
  descriptors: [
    ...[pair('user'), pair('path', '/login/1'), pair('log'), pair('parts'), pair('plan', 'gold'), pair('usr')].map(
      (one) => ({ entries: [one] }),
    ),
    { entries: [pair('slot'), pair('id', '1')] },
    { entries: [pair('dark')] },
    { entries: [pair('ip')], limit: { requestsPerUnit: 5, unit: 'HOUR' }, hitsAddend: '2' },
  ],
};
async function ask(body: object) {
  const response = await fetch(`http://127.0.0.1:${weir.httpPort}/json`, {
    method: 'POST',
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as object;
  return { operation: 'POST /json', status: response.status, answer };
}

const inAnHour = (): string => new Date(Date.now() + 3_600_000).toISOString();

/** Calls an operation until Redis has answered it in time. */
async function answered(...asked: Parameters<typeof call>): ReturnType<typeof call> {
  let made = await call(...asked);
  await until(`the answer of ${made.operation}`, async () => {
    if (made.status === 503) made = await call(...asked);
    return made.status !== 503;
  });
  return made;
}

/** Calls of every operation, in an order in which each answer has contents. */
async function calls(): Promise<readonly Awaited<ReturnType<typeof call>>[]> {
  const user = { domain: 'demo', descriptor: [pair('user')], reason: 'a test' };
  const made = [
    await call('GET', '/api/v1/advice'), // starts to record arrivals
    await answered('POST', '/api/v1/candidate?reason=test', CANDIDATE),
  ];
  for (let times = 0; times < 4; times++) {
    await ask(request);
    await ask({ domain: 'demo', descriptors: [{ entries: [pair('user', 'b')] }] });
    await ask({ domain: 'other', descriptors: [{ entries: [pair('user', 'b')] }] });
    await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body: '{"domain": "demo"}' }); // a finding
  }
  for (const path of ['/api/v1/candidate', '/api/v1/advice', '/api/v1/findings', '/api/v1/usage']) {
    const isFilled = (answer: Partial<Record<'rules' | 'limits' | 'findings' | 'rows', readonly object[]>>): boolean =>
      (answer.rules ?? answer.limits ?? answer.findings ?? answer.rows ?? []).length > 0;
    await until(`${path} is filled`, async () => {
      await ask(request);
      return isFilled((await call('GET', path)).answer);
    });
  }
  const later: readonly [method: string, path: string, body?: object | string][] = [
    ['POST', '/api/v1/explain', request],
    ['POST', '/api/v1/explain', { domain: 'other', descriptors: [{ entries: [pair('user')] }] }],
    ['POST', '/api/v1/explain', { domain: 'demo', descriptors: 7 }],
    ['GET', '/api/v1/unmatched'],
    ['GET', '/api/v1/findings'],
    ['GET', '/api/v1/top'],
    ['GET', '/api/v1/refusals'],
    ['GET', `/api/v1/refusals?since=${(await call('GET', '/api/v1/refusals')).answer.next}`],
    ['GET', '/api/v1/counters'],
    ['GET', '/api/v1/counters?domain=demo&descriptor=user=a'],
    ['GET', '/api/v1/counters?domain=demo&descriptor=slot=a,id=1'],
    ['POST', '/api/v1/counters/grant', { ...user, hits: 1 }],
    ['POST', '/api/v1/counters/reset', user],
    ['PUT', '/api/v1/overrides', { ...user, effect: 'limit', requestsPerUnit: 1, unit: 'HOUR', until: inAnHour() }],
    ['GET', '/api/v1/overrides'],
    ['GET', '/api/v1/overrides/preview?domain=demo&descriptor=user%3D*'],
    ['GET', '/api/v1/counters?domain=demo&descriptor=user=a'],
    ['POST', '/api/v1/counters/grant', { ...user, hits: 1 }],
    ['PUT', '/api/v1/overrides', { ...user, descriptor: [pair('usr')], effect: 'block', until: inAnHour() }],
    ['POST', '/api/v1/explain', request],
    ['DELETE', '/api/v1/overrides', user],
    ['GET', '/api/v1/recording'],
    ['PUT', '/api/v1/recording', { until: inAnHour(), reason: 'a test' }],
    ['GET', '/api/v1/audit'],
    ['GET', '/api/v1/usage?per=hour&by=rule'],
    ['GET', '/api/v1/usage'],
    ['POST', '/api/v1/usage/forget', user],
    ['GET', '/api/v1/quotas'],
    ['GET', '/api/v1/advice'],
    ['GET', '/api/v1/candidate'],
    ['GET', '/api/v1/candidate/text'],
    ['GET', '/api/v1/candidate/diff'],
    ['GET', '/api/v1/candidate/patch'],
    ['DELETE', '/api/v1/candidate', { reason: 'over' }],
    ['POST', '/api/v1/rules/check', RULES],
    ['POST', '/api/v1/rules/check', 'domain: demo\ndescriptors: [{ key: a, rate: 1 }]\n'],
    ['GET', '/api/v1/rules/text?domain=demo'],
    ['GET', '/api/v1/rules'],
    ['GET', '/api/v1/series'],
    ['GET', '/api/v1/series?rule=demo.user'],
    ['GET', '/api/v1/series?rule=demo.user&descriptor=user=a'],
    ['GET', '/api/v1/series/rules'],
    ['GET', '/api/v1/timeline'],
    ['GET', '/api/v1/rules/costs'],
    ['GET', '/api/v1/rules/illustration?rule=demo.user'],
    ['GET', '/api/v1/offenders'],
    ['GET', '/api/v1/instances'],
    ['GET', '/api/v1/status'],
    ['GET', '/api/v1/openapi.json'],
    ['GET', '/api/v1/session'],
    ['POST', '/api/v1/session', { token: 'token' }],
    ['DELETE', '/api/v1/session'],
  ];
  for (const [method, path, body] of later) made.push(await answered(method, path, body));
  return made;
}

test('the answers of every operation conform to the OpenAPI document', async () => {
  const made = await calls();
  const wrong = made.flatMap(({ operation, status, answer }) => {
    const flaws = documented.flawsOfAnswer(operation, status, answer);
    return status === 200 && flaws.length === 0 ? [] : [{ operation, status, flaws }];
  });
  expect(wrong).toEqual([]);
  const isThere = (operation: string, field: string): boolean =>
    made.some((one) => one.operation === operation && field in one.answer);
  for (const one of ['GET /api/v1/counters', 'POST /api/v1/counters/grant'])
    expect(isThere(one, 'override')).toBe(true);
  expect(isThere('PUT /api/v1/overrides', 'warning')).toBe(true);
  const asked = new Set(made.map(({ operation }) => operation));
  asked.add('POST /json'); // in the next test
  const elsewhere = [
    'GET /api/v1/notifications', // test/parts/notify/service.test.ts
    ...['GET /api/v1/sites', 'GET /api/v1/sites/limits'], // which need several: test/parts/sites/operations.test.ts
  ];
  const others = documented.operations.filter((one) => !asked.has(one) && !one.includes(' /holds/')); // test/parts/holds/pages.test.ts
  expect(others.toSorted()).toEqual(elsewhere);
});

test('a finding is also in the status, the metrics and the snapshots for the console', async () => {
  const isOfCalls = expect.objectContaining({ problem: expect.stringContaining('had no descriptors') });
  expect((await call('GET', '/api/v1/status')).answer.findings).toContainEqual(isOfCalls);
  const page = (path: string) => fetch(`http://127.0.0.1:${weir.debugPort}${path}`);
  expect(await (await page('/metrics')).text()).toContain('weir_findings{kind="call_without_descriptors"} 1\n');
  let snapshots = '';
  for await (const chunk of (await page('/api/v1/events')).body ?? []) {
    snapshots += Buffer.from(chunk).toString();
    if (snapshots.includes('had no descriptors')) break;
  }
});

test('the answers of /json conform to the OpenAPI document, whether a request passes or not', async () => {
  const passing = { domain: 'demo', descriptors: [{ entries: [pair('log', 'mine')] }] };
  const decided = [await ask(passing), await ask({ ...passing, hitsAddend: 10 }), await ask(request)];
  expect(decided.map(({ status }) => status)).toEqual([200, 429, 429]);
  for (const { operation, status, answer } of decided)
    expect(documented.flawsOfAnswer(operation, status, answer)).toEqual([]);
  expect(documented.flawsOfBody('POST /json', request)).toEqual([]);
});

test('answers that differ from the OpenAPI document are found', async () => {
  const { answer } = await call('GET', '/api/v1/unmatched');
  for (const wrong of [{}, { ...answer, total: 'many' }, { ...answer, more: 1 }])
    expect(documented.flawsOfAnswer('GET /api/v1/unmatched', 200, wrong)).not.toEqual([]);
  for (const operation of documented.operations)
    expect(documented.flawsOfAnswer(operation, 200, 'a text')).not.toEqual([]);
});

test('the body of explain conforms to the OpenAPI document', () => {
  expect(documented.flawsOfBody('POST /api/v1/explain', request)).toEqual([]);
  expect(documented.flawsOfBody('POST /api/v1/explain', { descriptors: 7 })).not.toEqual([]);
});

test.each(['/api/v1/nope', '/api/v1/', '/api/v2/top', '/api'])(
  '%s is answered with a problem document',
  async (path) => {
    for (const method of ['GET', 'POST']) {
      const { status, type, answer } = await call(method, path);
      expect({ status, type }).toEqual({ status: 404, type: 'application/problem+json' });
      expect(documented.flawsOfAnswer('', status, answer)).toEqual([]);
    }
  },
);
