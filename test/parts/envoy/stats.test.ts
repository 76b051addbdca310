import { examineStats, STATS_PAGE } from '../../../src/parts/envoy/stats.ts';
import { startPrintedEnvoy } from '../../helpers/printed-envoy.ts';
import { Upstream } from '../../helpers/upstream.ts';
import { startWeir } from '../../helpers/weir.ts';

const counts = (values: Readonly<Record<string, number>>) => ({
  stats: Object.entries(values).map(([name, value]) => ({ name, value })),
});

test.each([
  [{}, []],
  [
    { 'cluster.shop.ratelimit.ok': 5, 'cluster.a.b.ratelimit.x.over_limit': 2, 'cluster.weir.upstream_rq_timeout': 3 },
    ['right Envoy counts 5 requests that Weir let pass and 2 that it refused, and none without a decision'],
  ],
  [
    {
      ...{ 'cluster.shop.ratelimit.ok': 5, 'cluster.shop.ratelimit.error': 4 },
      ...{ 'cluster.shop.ratelimit.failure_mode_allowed': 3, 'ratelimit.tcp.error': 1 },
      ...{ 'ratelimit.tcp.failure_mode_allowed': 1, 'cluster.weir.upstream_rq_timeout': 2 },
      'cluster.shop.upstream_rq_timeout': 9,
    },
    [
      "check Envoy counts 5 requests that Weir let pass and 0 that it refused; 5 of 10 got no decision since its start: 4 passed (3 to shop, 1 to connections), 1 failed; 2 calls took longer than the filter's timeout: weir status has the other causes",
    ],
  ],
  [
    { 'cluster.shop.ratelimit.ok': 1, 'cluster.shop.ratelimit.error': 1, 'cluster.weir.upstream_rq_timeout': 1 },
    [
      "check Envoy counts 1 request that Weir let pass and 0 that it refused; 1 of 2 got no decision since its start: 0 passed, 1 failed; 1 call took longer than the filter's timeout",
    ],
  ],
])('the doctor reads %j', (values: Readonly<Record<string, number>>, lines) => {
  const found = examineStats(counts(values), ['weir']);
  expect(found.map(({ verdict, text }) => `${verdict} ${text}`)).toEqual(lines);
});

test('a real Envoy counts decisions, and requests that passed without one', async () => {
  const upstream = new Upstream((_, answer) => answer.end('done'));
  const weir = await startWeir({ USE_STATSD: 'false' }, { args: ['--rules', 'config/rules.yaml'] });
  const envoy = await startPrintedEnvoy({
    ...{ rules: 'config/rules.yaml', target: `127.0.0.1:${weir.grpcPort}`, upstreamPort: await upstream.listen() },
    edit: (config) => config.replace(/^ +health_checks:.*\n/m, ''),
  });
  const read = async () => {
    const page: unknown = await (await fetch(`http://127.0.0.1:${envoy.adminPort}${STATS_PAGE}`)).json();
    return examineStats(page, ['weir']).map(({ verdict, text }) => `${verdict} ${text}`);
  };
  const get = async () => (await fetch(`http://127.0.0.1:${envoy.port}/`, { headers: { 'x-user': 'ann' } })).status;
  try {
    expect(await read()).toEqual([]);
    expect(await get()).toBe(200);
    expect(await read()).toEqual([expect.stringMatching(/^right Envoy counts 1 request that/)]);
    await weir.stop('SIGKILL');
    expect(await get()).toBe(200);
    expect(await read()).toEqual([
      expect.stringMatching(/^check Envoy counts 1 .* 1 of 2 got no decision.*: 1 passed/),
    ]);
  } finally {
    await envoy.stop();
    upstream.close();
    await weir.stop();
  }
});
