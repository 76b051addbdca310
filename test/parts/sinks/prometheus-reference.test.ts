import '../../helpers/realm.ts';
import { metricsRoute } from '../../../src/edge/http/metrics.ts';
import { startHttpServer } from '../../../src/edge/http/server.ts';
import { createStatistics, type Statistics } from '../../../src/operate/observe/stats.ts';
import { createReferenceMetrics } from '../../../src/parts/sinks/prometheus-reference.ts';
import { type ParsedMetric, parseExposition } from '../../helpers/exposition.ts';
import { idle, usedCache } from '../../helpers/metrics.ts';
import { answerOf, verdictOf } from '../../helpers/verdicts.ts';

type ReferenceMetricsOptions = Parameters<typeof createReferenceMetrics>[1];

const options: ReferenceMetricsOptions = {
  extraTags: new Map(),
  responseTimeAsMilliseconds: false,
  figures: () => idle.figures,
};

const PREFIX = 'ratelimit_service_rate_limit_';

/** The series of the metrics whose name matches. */
function seriesOf(metrics: ReadonlyMap<string, ParsedMetric>, pattern: RegExp): Record<string, number> {
  const found = [...metrics].filter(([name]) => pattern.test(name));
  return Object.fromEntries(found.flatMap(([, { samples }]) => [...samples]));
}

async function scrape(statistics: Statistics, changes: Partial<ReferenceMetricsOptions> = {}) {
  const { body } = await createReferenceMetrics(statistics, { ...options, ...changes }).render();
  return parseExposition(String(body));
}

/** Statistics after the requests whose answers by envoyproxy/ratelimit were recorded. */
function played(): Statistics {
  const statistics = createStatistics(0.8);
  statistics.rulesLoaded(true);
  statistics.answered('d', answerOf([verdictOf(['k3'], { before: 9 })]));
  statistics.answered('d', answerOf([verdictOf(['k3'], { before: 10, hits: 3 })], { overallCode: 'OVER_LIMIT' }));
  statistics.answered('d', answerOf([verdictOf(['k1_v1', 's'])]));
  statistics.answered('d', answerOf([verdictOf(['branch', 'leaf'])]));
  statistics.failed(new Error('rate limit domain must not be empty'));
  statistics.answered('nope', answerOf([{ kind: 'no_domain' }]));
  statistics.onCallFinished('ShouldRateLimit');
  return statistics;
}

test('series have the names and labels of envoyproxy/ratelimit, and zeros are absent', async () => {
  const metrics = await scrape(played());
  expect(seriesOf(metrics, /^ratelimit_service_(?!response)/)).toEqual({
    [`${PREFIX}near_limit{domain="d",key1="k3"}`]: 1,
    [`${PREFIX}nope_domain_not_found`]: 1,
    [`${PREFIX}over_limit{domain="d",key1="k3"}`]: 3,
    [`${PREFIX}total_hits{domain="d",key1="branch",key2="leaf"}`]: 1,
    [`${PREFIX}total_hits{domain="d",key1="k1_v1",key2="s"}`]: 1,
    [`${PREFIX}total_hits{domain="d",key1="k3"}`]: 4,
    [`${PREFIX}within_limit{domain="d",key1="branch",key2="leaf"}`]: 1,
    [`${PREFIX}within_limit{domain="d",key1="k1_v1",key2="s"}`]: 1,
    [`${PREFIX}within_limit{domain="d",key1="k3"}`]: 1,
    ratelimit_service_config_load_success: 1,
    'ratelimit_service_should_rate_limit_error{err_type="service_error"}': 1,
    'ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}': 1,
  });
  const types = Object.fromEntries([...metrics].map(([name, { type }]) => [name, type]));
  expect(types).toMatchObject({
    [`${PREFIX}near_limit`]: 'counter',
    [`${PREFIX}nope_domain_not_found`]: 'counter',
    ratelimit_service_config_load_success: 'counter',
    ratelimit_service_response_time_seconds: 'histogram',
    process_cpu_seconds_total: 'counter',
  });
  expect([...metrics.keys()].filter((name) => /shadow|load_error|local_cache/.test(name))).toEqual([]);
});

test.each([
  [['remote_address_192.0.2.10'], 'key1="remote_address_192_0_2_10"'],
  [['u_http://x|y'], 'key1="u_http_//x_y"'],
  [['host_www.example.com'], 'key1="host_www",key2="example"'],
  [['branch', 'b.c', 'leaf'], 'key1="branch",key2="b"'],
  [['.'], 'key1="",key2=""'],
  [['a"b\\c', 'x,key1="y"'], String.raw`key1="a\"b\\c",key2="x,key1=\"y\""`],
])('the labels of %j are its name for StatsD up to the third dot', async (levels, labels) => {
  const statistics = createStatistics(0.8);
  statistics.answered('d', answerOf([verdictOf(levels)]));
  expect(Object.keys(seriesOf(await scrape(statistics), /total_hits/))).toEqual([
    `${PREFIX}total_hits{domain="d",${labels}}`,
  ]);
});

test('rules with equal labels are counted together, and refusals from the cache have their own metric', async () => {
  const statistics = createStatistics(0.8);
  for (const last of ['GET', 'PUT'])
    statistics.answered('v.w', answerOf([verdictOf(['a', last], { before: 10, fromCache: true, shadow: true })]));
  const counted = ['total_hits', 'over_limit', 'over_limit_with_local_cache', 'shadow_mode'];
  expect(seriesOf(await scrape(statistics), new RegExp(`^${PREFIX}`))).toEqual(
    Object.fromEntries(counted.map((name) => [`${PREFIX}${name}{domain="v",key1="w",key2="a"}`, 2])),
  );
});

test('domains with the same escaped name are counted together', async () => {
  const statistics = createStatistics(0.8);
  for (const domain of ['a.b', 'a-b', 'a😀b']) statistics.answered(domain, answerOf([{ kind: 'no_domain' }]));
  expect(seriesOf(await scrape(statistics), /not_found/)).toEqual({ [`${PREFIX}a_b_domain_not_found`]: 3 });
});

test('extra tags are labels of every series, and never override its own', async () => {
  const extraTags = new Map([
    ['app.k8s/name', 'r:l.1'],
    ['app-k8s-name', 'last'],
    ['1st', 'x'],
    ['domain', 'never'],
    ['grpc_method', 'nor'],
  ]);
  const statistics = played();
  const figures = () => ({ ...idle.figures, ...usedCache });
  const metrics = createReferenceMetrics(statistics, { ...options, extraTags, figures });
  metrics.onCallFinished('Check', 7);
  const parsed = parseExposition(String((await metrics.render()).body));
  const shared = 'app_k8s_name="last",_1st="x"';
  expect(Object.keys(seriesOf(parsed, /over_limit$|total_requests|load_success|entryCount$/))).toEqual([
    `${PREFIX}over_limit{domain="d",key1="k3",${shared},grpc_method="nor"}`,
    `ratelimit_service_total_requests{grpc_method="ShouldRateLimit",${shared},domain="never"}`,
    `ratelimit_service_config_load_success{${shared},domain="never",grpc_method="nor"}`,
    `ratelimit_localcache_entryCount{${shared},domain="never",grpc_method="nor"}`,
  ]);
  const [times] = Object.keys(seriesOf(parsed, /response_time/)).filter((series) => series.includes('_count'));
  expect(times).toContain('grpc_method="Check"');
  expect(times).toContain('_1st="x"');
});

test.each([
  [false, 0.1 + 0.002],
  [true, 100 + 2],
])('response times are in milliseconds: %p', async (responseTimeAsMilliseconds, sum) => {
  const metrics = createReferenceMetrics(createStatistics(0.8), { ...options, responseTimeAsMilliseconds });
  for (const elapsedMs of [100, 2]) metrics.onCallFinished('Check', elapsedMs);
  const series = seriesOf(
    parseExposition(String((await metrics.render()).body)),
    /^ratelimit_service_response_time_seconds$/,
  );
  const name = 'ratelimit_service_response_time_seconds';
  expect(series[`${name}_sum{grpc_method="Check"}`]).toBeCloseTo(sum, 9);
  expect(series[`${name}_count{grpc_method="Check"}`]).toBe(2);
  const bounds = Object.keys(series).flatMap((one) => /le="([^"]+)"/.exec(one)?.[1] ?? []);
  expect(bounds).toEqual(['0.005', '0.01', '0.025', '0.05', '0.1', '0.25', '0.5', '1', '2.5', '5', '10', '+Inf']);
});

test('gauges of the local cache have their escaped names', async () => {
  const metrics = await scrape(createStatistics(0.8), {
    figures: () => ({ ...idle.figures, cacheSize: 0 }),
  });
  expect(metrics.get('ratelimit_localcache_entryCount')).toEqual({
    type: 'gauge',
    samples: new Map([['ratelimit_localcache_entryCount', 0]]),
  });
});

test('a separate port serves only these metrics', async () => {
  const metrics = createReferenceMetrics(played(), options);
  const routes = new Map([['/numbers', metricsRoute(metrics.render)]]);
  const server = await startHttpServer({ host: '127.0.0.1', port: 0 }, routes, () => {});
  const get = (path: string) => fetch(`http://127.0.0.1:${server.port}${path}`);
  try {
    const response = await get('/numbers');
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/plain; version=0.0.4; charset=utf-8',
    ]);
    expect(parseExposition(await response.text()).has(`${PREFIX}total_hits`)).toBe(true);
    for (const path of ['/', '/metrics', '/debug/pprof/', '/debug/vars']) expect((await get(path)).status).toBe(404);
  } finally {
    await server.close(0);
  }
});
