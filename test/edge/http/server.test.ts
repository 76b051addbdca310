import { backendThat, ledgerOf } from '../../helpers/ledger.ts';
import '../../helpers/realm.ts';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { apiRoutes } from '../../../src/edge/http/api.ts';
import { debugRoutes } from '../../../src/edge/http/debug.ts';
import { type HttpServer, plain, type Route, startHttpServer } from '../../../src/edge/http/server.ts';
import type { Readiness } from '../../../src/edge/rls/health.ts';
import { createRlsService } from '../../../src/edge/rls/service.ts';
import type { Decider } from '../../../src/engine/decide/decide.ts';
import type { LoadedRules } from '../../../src/engine/rules/reload/load.ts';
import { status } from '../../../src/h2/grpc/grpc-status.ts';
import { createMetrics } from '../../../src/operate/observe/prometheus.ts';
import { referenceCounters } from '../../../src/operate/observe/reference-names.ts';
import { createStatistics } from '../../../src/operate/observe/stats.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { gate } from '../../helpers/gate.ts';
import { idle } from '../../helpers/metrics.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const rules = rulesFrom(`
domain: demo
descriptors:
  - {key: user, rate_limit: {name: per-user, unit: minute, requests_per_unit: 2}}
  - {key: user, value: admin, rate_limit: {unlimited: true}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: quota, quota_mode: true, rate_limit: {unit: week, requests_per_unit: 7}}
`);

const newRules = rulesFrom(`
domain: demo
descriptors:
  - {key: soft, rate_limit: {unit: minute, unit_multiplier: 2, requests_per_unit: 1, soft: 1}}
  - {key: bucket, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: token_bucket, burst: 5}}
  - {key: odd, rate_limit: {window: 1500ms, requests_per_unit: 2, algorithm: sliding_window_log}}
  - {key: both, rate_limits: [{unit: second, requests_per_unit: 9}, {window: 30s, requests_per_unit: 7, algorithm: leaky_bucket}]}
  - {key: free, rate_limits: [{unlimited: true}]}
`);

let server: HttpServer | undefined;
let errors: unknown[];
beforeEach(() => {
  errors = [];
});
afterEach(() => server?.close(0));

async function start(routes: ReadonlyMap<string, Route>): Promise<void> {
  server = await startHttpServer({ host: '127.0.0.1', port: 0 }, routes, (error) => errors.push(error));
}

async function get(path: string, init: RequestInit = {}) {
  const response = await fetch(`http://127.0.0.1:${server?.port}${path}`, init);
  const reason = response.headers.get('x-weir-reason');
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    body: await response.text(),
    ...(reason !== null && { reason }),
  };
}

const post = (path: string, body: string) => get(path, { method: 'POST', body });

/** The service with counters in memory, and its statistics. */
function build(changes: Partial<Decider> = {}, isReady = true) {
  const statistics = createStatistics(0.8);
  const metrics = createMetrics(statistics);
  const render = (format?: 'text' | 'openmetrics') => metrics.render({ ...idle, isReady }, format);
  const decider = deciderOf(rules, changes);
  const limits = { limit: 'RateLimit-Limit', remaining: 'RateLimit-Remaining', reset: 'RateLimit-Reset' };
  const service = createRlsService(decider, extrasOf({ limits, soft: 'X-Soft' }), {
    answered: ({ domain }, answer) => statistics.answered(domain, answer),
    failed: (_status, cause) => statistics.failed(cause),
  });
  const counters = async () => referenceCounters(statistics);
  return { service, statistics, metrics, numbers: { metrics: render, statistics: counters } };
}

const ready = (): Readiness => ({ ready: true, reasons: [] });
const plainText = 'text/plain; charset=utf-8';
const asking = (key: string, value = 'x'): string =>
  JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key, value }] }] });

describe('/json', () => {
  beforeEach(() => start(apiRoutes(build().service, ready, overloadOf())));

  test('refuses a shed call without reading it', async () => {
    await server?.close(0);
    const shedding = overloadOf({ refusal: () => ({ code: status.RESOURCE_EXHAUSTED, details: 'too much' }) });
    await start(apiRoutes(build().service, ready, shedding));
    expect(await post('/json', 'no JSON at all')).toMatchObject({ status: 400, reason: 'too much' });
  });

  test('answers 200 within the limit and 429 over it, with the full response', async () => {
    const answers = [];
    for (let times = 0; times < 3; times++) answers.push(await post('/json', asking('user')));
    expect(answers.map(({ status, type }) => [status, type])).toEqual([
      [200, 'application/json'],
      [200, 'application/json'],
      [429, 'application/json'],
    ]);
    const currentLimit = { name: 'per-user', requestsPerUnit: 2, unit: 'MINUTE' };
    const headers = (remaining: string) => [
      { key: 'RateLimit-Limit', value: '2' },
      { key: 'RateLimit-Remaining', value: remaining },
      { key: 'RateLimit-Reset', value: '40' },
    ];
    expect(answers.map(({ body }) => JSON.parse(body))).toEqual([
      {
        overallCode: 'OK',
        statuses: [{ code: 'OK', currentLimit, limitRemaining: 1, durationUntilReset: '40s' }],
        responseHeadersToAdd: headers('1'),
      },
      {
        overallCode: 'OK',
        statuses: [{ code: 'OK', currentLimit, durationUntilReset: '40s' }],
        responseHeadersToAdd: headers('0'),
      },
      {
        overallCode: 'OVER_LIMIT',
        statuses: [{ code: 'OVER_LIMIT', currentLimit, durationUntilReset: '40s' }],
        responseHeadersToAdd: headers('0'),
      },
    ]);
  });

  test('adds the detail of an answer for `x-weir-detail: 1`', async () => {
    const detailed = { method: 'POST', body: asking('user'), headers: { 'x-weir-detail': '1' } };
    const numbers = {
      rule: 'demo.user',
      limit: 2,
      remaining: 1,
      retry_after_ms: 0,
      reset_ms: 40_000,
      unspent_ms: 40_000,
    };
    const facts = { ...numbers, delay_ms: 0, source: 'backend' };
    const { body } = await get('/json', detailed);
    expect(JSON.parse(body).dynamicMetadata).toEqual({ weir: { ...facts, descriptors: [facts] } });
    expect(JSON.parse((await post('/json', asking('user'))).body)).not.toHaveProperty('dynamicMetadata');
  });

  test('answers any method and query', async () => {
    for (const method of ['PUT', 'DELETE']) {
      expect(await get('/json?x=1', { method, body: asking('user', method) })).toMatchObject({ status: 200 });
    }
  });

  test('decodes UTF-8 no matter where the body is split into packets', async () => {
    const body = Buffer.from(asking('user', 'é😀'.repeat(10)));
    const socket = connect(server?.port ?? 0, '127.0.0.1');
    socket.setNoDelay(true).write(`POST /json HTTP/1.1\r\nhost: weir\r\ncontent-length: ${body.length}\r\n\r\n`);
    for (const byte of body) {
      socket.write(Buffer.of(byte));
      await new Promise(setImmediate);
    }
    const [reply] = await once(socket, 'data');
    socket.destroy();
    expect(String(reply)).toMatch(/^HTTP\/1.1 200 OK/);
    const again = JSON.parse((await post('/json', asking('user', 'é😀'.repeat(10)))).body);
    expect(again.statuses[0].limitRemaining).toBeUndefined(); // the same counter: 0 of 2 remain
  });

  test.each([
    ['', 'not JSON: expected a value at octet 0, got the end'],
    ['}', expect.stringContaining('not JSON: ')],
    ['{"domain": "demo", "x": 1}', 'x: unknown field; expected one of domain, descriptors, hits_addend'],
    ['{"domain": ""}', 'rate limit domain must not be empty'],
    ['{"domain": "demo"}', 'rate limit descriptor list must not be empty'],
    [
      '{"domain": "demo", "descriptors": [{"limit": {"requestsPerUnit": 1}}]}',
      'descriptors[0].limit.unit must be a unit from SECOND (1) to WEEK (7), got 0',
    ],
  ])('answers 400 with a reason to %j', async (body, reason) => {
    expect(await post('/json', body)).toEqual({ status: 400, type: plainText, body: 'Bad Request\n', reason });
  });

  test('gives the reason in printable ASCII for any request', async () => {
    const answer = await post('/json', '{"domain": "demo", "x\\n\\u00e9": 1}');
    expect(answer.reason).toBe('x??: unknown field; expected one of domain, descriptors, hits_addend');
  });

  // A header of more than 16 KiB is refused by most clients and proxies: the answer would not arrive at all.
  test('gives a short reason for a long request', async () => {
    const answer = await post('/json', `{"hitsAddend": "${'x'.repeat(100_000)}"}`);
    expect(answer).toMatchObject({ status: 400, body: 'Bad Request\n' });
    expect(answer.reason?.length).toBeLessThan(2_000);
  });

  test('answers 400 to an oversized body, and keeps working', async () => {
    const most = 1024 * 1024;
    expect(await post('/json', `${' '.repeat(most - 2)}{}`)).toMatchObject({
      status: 400,
      body: 'Bad Request\n',
      reason: 'rate limit domain must not be empty',
    });
    expect(await post('/json', ' '.repeat(most + 1))).toMatchObject({
      status: 400,
      body: 'Bad Request\n',
      reason: 'the body must have at most 1048576 bytes',
    });
    expect(await post('/json', asking('user'))).toMatchObject({ status: 200 });
  });
});

test('/json keeps working after a client disconnects in the middle of its body', async () => {
  const began = gate();
  const routes = new Map(apiRoutes(build().service, ready, overloadOf()));
  const json = routes.get('/json');
  if (!json) throw new Error('there is no /json');
  const answer: Route['answer'] = (request) => {
    began.open();
    return json.answer(request);
  };
  await start(routes.set('/json', { ...json, answer }));

  const socket = connect(server?.port ?? 0, '127.0.0.1');
  socket.write('POST /json HTTP/1.1\r\nhost: weir\r\ncontent-length: 100\r\n\r\n{"domain"');
  await began.passed;
  socket.destroy();
  await once(socket, 'close');
  expect(await post('/json', asking('user'))).toMatchObject({ status: 200 });
  expect(errors).toEqual([]);
});

test.each([
  ['no rules', { rules: () => undefined }, 'no rate limit configuration loaded'],
  [
    'no store',
    {
      ledger: ledgerOf(
        backendThat((hits) => hits.map(() => ({ code: 'UNAVAILABLE', reason: 'no connection' }) as const)),
      ),
    },
    'rate limit store unavailable: no connection',
  ],
])('/json answers 400 while there is %s', async (_, changes, reason) => {
  await start(apiRoutes(build(changes).service, ready, overloadOf()));
  expect(await post('/json', asking('user'))).toEqual({
    status: 400,
    type: plainText,
    body: 'Bad Request\n',
    reason,
  });
});

describe('/healthcheck', () => {
  test.each<[Readiness, number, string]>([
    [{ ready: true, reasons: [] }, 200, 'OK'],
    [{ ready: false, reasons: ['no rate limit configuration loaded'] }, 500, 'no rate limit configuration loaded\n'],
    [{ ready: false, reasons: ['one', 'two'] }, 500, 'one\ntwo\n'],
  ])('answers for %j with status %d', async (readiness, status, body) => {
    await start(apiRoutes(build().service, () => readiness, overloadOf()));
    expect(await get('/healthcheck?verbose')).toEqual({ status, type: plainText, body });
    const quiet = { status, type: plainText, body: status === 200 ? body : '' };
    for (const path of ['/healthcheck', '/healthcheck?verbosely', '/healthcheck?x=verbose'])
      expect(await get(path)).toEqual(quiet);
  });
});

describe('the debug pages', () => {
  const broken: LoadedRules = {
    ok: false,
    problems: [{ file: 'a.yaml', line: 3, path: 'descriptors[0]', severity: 'error', message: 'no good' }],
  };
  const listed = [
    'demo.user_admin: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false',
    'demo.user: unit=MINUTE requests_per_unit=2, shadow_mode: false, quota_mode: false',
    'demo.trial: unit=HOUR requests_per_unit=1, shadow_mode: true, quota_mode: false',
    'demo.quota: unit=WEEK requests_per_unit=7, shadow_mode: false, quota_mode: true',
  ];
  const full = [
    `${listed[0]}, unlimited: true, at: rules.yaml:5`,
    `${listed[1]}, name: per-user, at: rules.yaml:4`,
    `${listed[2]}, at: rules.yaml:6`,
    `${listed[3]}, at: rules.yaml:7`,
  ];
  const { numbers } = build();
  const page = { status: 200, type: plainText };

  test.each([
    ['the rules in force', rules, { ok: true, rules, warnings: [] } as const, full],
    ['nothing before the first load', undefined, undefined, []],
    [
      'warnings where they are asked for',
      rules,
      {
        ok: true,
        rules,
        warnings: [{ file: 'a.yaml', line: 3, path: '', severity: 'warning', message: 'odd' }],
      } as const,
      ['# a.yaml:3: warning: odd', ...full],
    ],
    [
      'what is wrong above the rules of before',
      rules,
      broken,
      [
        '# The newest rules are invalid; the rules listed below were loaded before.',
        '# a.yaml:3: descriptors[0]: no good',
        ...full,
      ],
    ],
  ])('/rlconfig?verbose shows %s', async (_, tree, lastLoad, lines) => {
    await start(debugRoutes({ rules: () => tree, lastLoad: () => lastLoad, ...numbers }));
    expect(await get('/rlconfig?verbose')).toEqual({ ...page, body: lines.map((line) => `${line}\n`).join('') });
  });

  test('/rlconfig without verbose shows no warnings, so that it matches envoyproxy/ratelimit', async () => {
    const odd = { file: 'a.yaml', line: 3, path: '', severity: 'warning', message: 'odd' } as const;
    await start(
      debugRoutes({ rules: () => rules, lastLoad: () => ({ ok: true, rules, warnings: [odd] }), ...numbers }),
    );
    expect((await get('/rlconfig')).body).toBe(listed.map((line) => `${line}\n`).join(''));
  });

  test('/rlconfig shows one line per limit, and the features that envoyproxy/ratelimit does not have', async () => {
    await start(debugRoutes({ rules: () => newRules, lastLoad: () => undefined, ...numbers }));
    const modes = 'shadow_mode: false, quota_mode: false';
    expect((await get('/rlconfig')).body.split('\n')).toEqual([
      `demo.soft: unit=MINUTE requests_per_unit=1, ${modes}, unit_multiplier: 2, soft: 1`,
      `demo.bucket: unit=MINUTE requests_per_unit=2, ${modes}, algorithm: token_bucket, burst: 5`,
      `demo.odd: unit=UNKNOWN requests_per_unit=2, ${modes}, window: 1500ms, algorithm: sliding_window_log`,
      `demo.both: unit=SECOND requests_per_unit=9, ${modes}`,
      `demo.both: unit=SECOND requests_per_unit=7, ${modes}, unit_multiplier: 30, algorithm: leaky_bucket, burst: 1`,
      `demo.free: unit=UNKNOWN requests_per_unit=0, ${modes}`,
      '',
    ]);
  });

  test('/rlconfig?verbose and ?format=json show everything that affects decisions', async () => {
    const tree = rulesFrom(`
domain: demo
spend: all_or_nothing
descriptors:
  - key: user
    rate_limit: { name: a, unit: day, requests_per_unit: 5, alignment: calendar, timezone: Europe/Berlin, replaces: [{ name: b }], on_store_failure: local, local_share: 2 }
  - { key: path, metadata: { team: x }, rate_limits: [{ name: b, unit: second, requests_per_unit: 9, shadow_mode: true }] }
`);
    await start(debugRoutes({ rules: () => tree, lastLoad: () => undefined, ...numbers }));
    expect((await get('/rlconfig?verbose')).body.split('\n')).toEqual([
      '# domain demo: spend: all_or_nothing',
      'demo.user: unit=DAY requests_per_unit=5, shadow_mode: false, quota_mode: false, alignment: calendar, timezone: Europe/Berlin, on_store_failure: local, local_share: 2, name: a, replaces: b, at: rules.yaml:5',
      'demo.path: unit=SECOND requests_per_unit=9, shadow_mode: true, quota_mode: false, name: b, metadata: {"team":"x"}, at: rules.yaml:7',
      '',
    ]);
    const asJson = await get('/rlconfig?format=json');
    expect(asJson.type).toBe('application/json');
    expect(JSON.parse(asJson.body)).toMatchObject({
      ...{ loaded: true, newest: true, problems: [], domains: [{ name: 'demo', spend: 'all_or_nothing' }] },
      rules: [
        {
          ...{ domain: 'demo', path: 'demo.user', file: 'rules.yaml', line: 5, replaces: ['b'] },
          limits: [
            {
              ...{ name: 'a', algorithm: 'fixed_window', unit: 'day', unit_multiplier: 1, window_ms: 86_400_000 },
              ...{ requests_per_unit: 5, soft: 0, shadow_mode: false, quota_mode: false, alignment: 'calendar' },
              ...{ timezone: 'Europe/Berlin', on_store_failure: 'local', local_share: 2, consistency: 'strict' },
            },
          ],
        },
        { path: 'demo.path', metadata: { team: 'x' }, limits: [{ name: 'b', shadow_mode: true }] },
      ],
    });
    expect((await get('/rlconfig', { headers: { accept: 'application/json' } })).body).toBe(asJson.body);
  });

  test('/metrics is OpenMetrics for clients that accept it, and Prometheus text for others', async () => {
    await start(debugRoutes({ rules: () => rules, lastLoad: () => undefined, ...numbers }));
    const text = await get('/metrics', { headers: { accept: 'text/plain' } });
    expect(text.type).toBe('text/plain; version=0.0.4; charset=utf-8');
    const prometheus = 'application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1';
    const open = await get('/metrics', { headers: { accept: prometheus } });
    expect(open.type).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8');
    const lines = open.body.split('\n');
    expect(lines.slice(-2)).toEqual(['# EOF', '']);
    expect(lines.slice(0, -2).filter((line) => line === '')).toEqual([]);
    const counters = lines.flatMap((line) => /^# TYPE (\S+) counter$/.exec(line)?.[1] ?? []);
    expect(counters).toContain('weir_answers');
    expect(counters.filter((name) => name.endsWith('_total'))).toEqual([]);
    for (const name of counters) expect(lines.some((line) => line.startsWith(`# HELP ${name} `))).toBe(true);
    const samples = (body: string) =>
      body
        .split('\n')
        .filter((line) => /^weir_\w+/.test(line))
        .map((line) => line.split(' ')[0]);
    expect(samples(open.body)).toEqual(samples(text.body));
    expect((await get('/metrics', { headers: { accept: 'application/openmetrics-text;q=0' } })).type).toBe(text.type);
  });

  test('large pages are compressed for clients that accept gzip, and for no others', async () => {
    await start(debugRoutes({ rules: () => rules, lastLoad: () => undefined, ...numbers }));
    const encodingOf = async (path: string, accepted: string) => {
      const response = await fetch(`http://127.0.0.1:${server?.port}${path}`, {
        headers: { 'accept-encoding': accepted },
      });
      expect(await response.text()).toMatch(/weir_|rlconfig/); // decompressed by fetch
      return [response.headers.get('content-encoding'), response.headers.get('vary')?.includes('accept-encoding')];
    };
    expect(await encodingOf('/metrics', 'deflate, gzip;q=0.5')).toEqual(['gzip', true]);
    expect(await encodingOf('/metrics', 'gzip;q=0')).toEqual([null, true]);
    expect(await encodingOf('/metrics', 'identity')).toEqual([null, true]);
    expect((await encodingOf('/', 'gzip'))[0]).toBeNull(); // too small to gain anything
  });

  test('unknown paths of APIs are answered with 404 and 405, others with the index', async () => {
    const route = { help: 'x', methods: ['GET', 'HEAD'], answer: () => plain(200, 'here') };
    const sources = { rules: () => rules, lastLoad: () => undefined, ...numbers };
    await start(debugRoutes(sources, new Map([['/api/v1/known', route]])));
    for (const path of ['/api', '/api/', '/api/v1/nothing', '/console', '/console/x.js'])
      expect(await get(path)).toMatchObject({ status: 404, body: '404 page not found\n' });
    expect(await get('/api/v1/known')).toMatchObject({ status: 200, body: 'here' });
    const refused = await fetch(`http://127.0.0.1:${server?.port}/api/v1/known`, { method: 'POST' });
    expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    for (const path of ['/apis', '/nowhere']) expect((await get(path)).body).toContain('/rlconfig: ');
  });

  test.each(['/', '/nowhere', '/debug/pprof/'])('%s lists the pages, in order', async (path) => {
    const sources = { rules: () => rules, lastLoad: () => undefined, ...numbers };
    await start(debugRoutes(sources, new Map([['/more', { help: 'one more', answer: () => plain(200, 'more') }]])));
    const lines = [
      '/metrics: metrics for Prometheus, or in OpenMetrics for clients that accept it',
      '/more: one more',
      '/rlconfig: the rules in force, and the problems of newer ones; ?verbose adds positions and warnings, ?format=json returns JSON',
      '/stats: statistics with the names of envoyproxy/ratelimit',
    ];
    expect(await get(path)).toEqual({ ...page, body: lines.map((line) => `${line}\n`).join('') });
    expect(await get('/more')).toEqual({ ...page, body: 'more' });
  });

  /** The service's own metrics, except latencies. */
  async function metricsPage(): Promise<readonly string[]> {
    const { type, body } = await get('/metrics');
    expect(type).toMatch(/^text\/plain; version=0.0.4/);
    return body.split('\n').filter((line) => /^weir_/.test(line) && !/_(bucket|sum)/.test(line));
  }

  test('/metrics has the counts of answers and calls, unchanged by a second scrape', async () => {
    const { service, metrics, numbers: counted } = build();
    const sources = { rules: () => rules, lastLoad: () => undefined, ...counted };
    await start(new Map([...apiRoutes(service, ready, overloadOf()), ...debugRoutes(sources)]));
    for (let times = 0; times < 3; times++) await post('/json', asking('user'));
    for (let times = 0; times < 2; times++) await post('/json', asking('trial'));
    await post('/json', asking('user', 'admin'));
    await post('/json', JSON.stringify({ domain: 'nope', descriptors: [{}, {}] }));
    await post('/json', '{"domain": ""}');
    metrics.onCallFinished('ShouldRateLimit', 3, 1);
    const first = await metricsPage();
    expect(first).toEqual(
      expect.arrayContaining([
        'weir_answers_total{code="OK"} 6',
        'weir_answers_total{code="OVER_LIMIT"} 1',
        'weir_requests_unmatched_total 1',
        'weir_call_duration_seconds_count{method="ShouldRateLimit",grpc_status="3"} 1',
        'weir_domain_answers_total{domain="demo",code="OK"} 5',
        'weir_undecided_total{reason="other"} 1',
        'weir_domain_not_found_total{domain="nope"} 2',
        'weir_failures_total{by="service"} 1',
        'weir_hits_over_limit_total{domain="demo",rule="user",algorithm="fixed_window"} 1',
        'weir_hits_shadowed_total{domain="demo",rule="trial",algorithm="fixed_window"} 1',
        'weir_hits_total{domain="demo",rule="user",algorithm="fixed_window"} 3',
        `weir_build_info{version="1.2.3",node="${process.version}"} 1`,
        'weir_ready 1',
      ]),
    );
    expect(await metricsPage()).toEqual(first);
  });

  test('/stats has the statistics with the names of envoyproxy/ratelimit, in order', async () => {
    const { service, numbers: counted } = build();
    const sources = { rules: () => rules, lastLoad: () => undefined, ...counted };
    await start(new Map([...apiRoutes(service, ready, overloadOf()), ...debugRoutes(sources)]));
    for (let times = 0; times < 3; times++) await post('/json', asking('user'));
    expect(await get('/stats')).toEqual({
      ...page,
      body: [
        'ratelimit.service.call.should_rate_limit.redis_error: 0\n',
        'ratelimit.service.call.should_rate_limit.service_error: 0\n',
        'ratelimit.service.config_load_error: 0\n',
        'ratelimit.service.config_load_success: 0\n',
        'ratelimit.service.global_shadow_mode: 0\n',
        'ratelimit.service.rate_limit.demo.user.near_limit: 1\n',
        'ratelimit.service.rate_limit.demo.user.notified: 0\n',
        'ratelimit.service.rate_limit.demo.user.over_limit: 1\n',
        'ratelimit.service.rate_limit.demo.user.over_limit_with_local_cache: 0\n',
        'ratelimit.service.rate_limit.demo.user.shadow_mode: 0\n',
        'ratelimit.service.rate_limit.demo.user.soft_limit: 0\n',
        'ratelimit.service.rate_limit.demo.user.total_hits: 3\n',
        'ratelimit.service.rate_limit.demo.user.within_limit: 2\n',
      ].join(''),
    });
  });

  test('/metrics shows hits that shadow mode let pass, and that the service is not ready', async () => {
    const { service, numbers: counted } = build({ shadowMode: true }, false);
    const sources = { rules: () => rules, lastLoad: () => undefined, ...counted };
    await start(new Map([...apiRoutes(service, ready, overloadOf()), ...debugRoutes(sources)]));
    for (let times = 0; times < 3; times++) await post('/json', asking('user'));
    for (let times = 0; times < 2; times++)
      expect(await metricsPage()).toEqual(
        expect.arrayContaining(['weir_global_shadow_mode_total 1', 'weir_answers_total{code="OK"} 3', 'weir_ready 0']),
      );
  });
});

describe('the server', () => {
  const good: Route = { help: '', answer: () => plain(200, 'fine') };

  test.each(['/nowhere', '/json/', '/JSON', '//json', '/__proto__', '/constructor'])(
    'answers 404 to %s',
    async (path) => {
      await start(apiRoutes(build().service, ready, overloadOf()));
      expect(await get(path)).toEqual({ status: 404, type: plainText, body: '404 page not found\n' });
    },
  );

  test("answers 500 for a page that throws, passes the error only to the server's owner, and keeps working", async () => {
    const bug = new Error('secret reason');
    const throws: Route['answer'] = () => {
      throw bug;
    };
    const invalid = async () => ({ ...plain(200, ''), headers: { 'x-city': '東京' } });
    const routes = {
      '/throws': throws,
      '/rejects': () => Promise.reject(bug),
      '/invalid': invalid,
      '/good': good.answer,
    };
    await start(new Map(Object.entries(routes).map(([path, answer]) => [path, { help: '', answer }])));
    for (const path of ['/throws', '/rejects', '/invalid'])
      expect(await get(path)).toEqual({ status: 500, type: plainText, body: 'Internal Server Error\n' });
    expect(errors).toEqual([bug, bug, expect.objectContaining({ code: 'ERR_INVALID_CHAR' })]);
    expect(await get('/good')).toMatchObject({ status: 200, body: 'fine' });
  });

  /** A page at /slow that answers on command, on a server without other pages. */
  async function slowPage() {
    const asked = gate();
    const answered = gate();
    const answer: Route['answer'] = async () => {
      asked.open();
      await answered.passed;
      return plain(200, 'done');
    };
    await start(new Map([['/slow', { help: '', answer }]]));
    return { asked: asked.passed, finish: answered.open };
  }

  test('waits for a request in flight when it closes, and accepts no more', async () => {
    const { asked, finish } = await slowPage();
    const agent = new Agent(); // no connection outlives its request
    const response = once(request({ port: server?.port, path: '/slow', agent }).end(), 'response');
    await asked;
    const closed = server?.close(60_000);
    await expect(get('/slow')).rejects.toThrow('fetch failed');
    finish();
    const [{ statusCode }] = await response;
    expect(statusCode).toBe(200);
    await closed;
  });

  // Otherwise it waits until the client or the keep-alive timeout ends the connection, seconds later.
  test('does not keep a connection open after the last answer when it closes', async () => {
    const { asked, finish } = await slowPage();
    const socket = connect(server?.port ?? 0, '127.0.0.1');
    socket.write('GET /slow HTTP/1.1\r\nhost: weir\r\n\r\n');
    await asked;
    const closed = server?.close(60_000);
    finish();
    const [reply] = await once(socket, 'data');
    socket.destroy();
    await closed;
    expect(String(reply)).toMatch(/^connection: close\r$/im);
  });

  test('accepts no more requests on open connections when it closes', async () => {
    const { asked, finish } = await slowPage();
    const socket = connect(server?.port ?? 0, '127.0.0.1');
    const asking = 'GET /slow HTTP/1.1\r\nhost: weir\r\n\r\n';
    let replies = '';
    socket
      .on('error', () => {})
      .on('data', (data) => {
        replies += data;
      });
    socket.write(asking);
    await asked;
    const closed = server?.close(60_000);
    finish();
    await once(socket, 'data');
    socket.end(asking);
    await closed;
    expect(replies.match(/HTTP\/1.1 200 OK/g)).toHaveLength(1);
  });

  test('ends requests in flight after the grace period when it closes', async () => {
    const asked = gate();
    const never: Route['answer'] = () => {
      asked.open();
      return new Promise(() => {});
    };
    await start(new Map([['/never', { help: '', answer: never }]]));
    const response = get('/never');
    await asked.passed;
    await Promise.all([server?.close(1), expect(response).rejects.toThrow('fetch failed')]);
  });

  test('reports an error if it cannot listen', async () => {
    await start(new Map([['/', good]]));
    const address = { host: '127.0.0.1', port: server?.port ?? 0 };
    await expect(startHttpServer(address, new Map(), () => {})).rejects.toThrow(/EADDRINUSE/);
  });
});
