import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseExposition } from '../../helpers/exposition.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { freePort } from '../../helpers/process.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { startReference } from '../../helpers/reference.ts';
import { startTcpStatsd, startUdpStatsd } from '../../helpers/statsd.ts';
import { eventually } from '../../helpers/until.ts';
import { startWeir } from '../../helpers/weir.ts';

const limit = (requests: number) => ({ rate_limit: { unit: 'year', requests_per_unit: requests } });

const RULES = [
  {
    domain: 'd',
    descriptors: [
      { key: 'detailed', detailed_metric: true, ...limit(2) },
      { key: 'shown', value_to_metric: true, descriptors: [{ key: 'below', value: 'x.y', ...limit(2) }] },
      { key: 'remote_address', value: '192.0.2.10', ...limit(1) },
      { key: 'masked_remote_address', value: '2001:db8::/64', ...limit(1) },
      { key: 'url', value: 'http://x|y', ...limit(9) },
      { key: 'path', value: '/v1.2/*', ...limit(9) },
      {
        key: 'host',
        value: 'www.example.com',
        descriptors: [{ key: 'a.b', descriptors: [{ key: 'c', ...limit(9) }] }],
      },
      { key: 'trial', shadow_mode: true, ...limit(0) },
    ],
  },
  { domain: 'my.domain:10.0.0.1', descriptors: [{ key: 'k', ...limit(9) }] },
];

const VALUES = [
  ...['', 'plain', '10.1.2.3', '1.2.3.4.5', '2001:db8::1', '[::1]:80', 'a:b|c', 'a.b', '.', '..', 'a..b', '.a', 'a.'],
  ...['a"b\\c', "it's", 'é', '😀', ' ', 'a b', 'a,b=c', '{x="y"}', '%20', '#@', '*', '$1', '_', '0', '/v1.2/users'],
];

type Entries = readonly (readonly [key: string, value: string])[];

const REQUESTS: readonly (readonly [domain: string, entries: Entries])[] = [
  ...VALUES.flatMap((value): readonly (readonly [string, Entries])[] => [
    ['d', [['detailed', value]]],
    [
      'd',
      [
        ['shown', value],
        ['below', 'x.y'],
      ],
    ],
  ]),
  ...[1, 2, 3].map((): readonly [string, Entries] => ['d', [['remote_address', '192.0.2.10']]]),
  ['d', [['masked_remote_address', '2001:db8::/64']]],
  ['d', [['url', 'http://x|y']]],
  ['d', [['path', '/v1.2/users']]],
  [
    'd',
    [
      ['host', 'www.example.com'],
      ['a.b', '1'],
      ['c', '2'],
    ],
  ],
  ['d', [['trial', 'x']]],
  ['my.domain:10.0.0.1', [['k', 'v']]],
  ['no.such:domain', [['k', 'v']]],
];

let redis: Redis;
let folder: string;
beforeAll(async () => {
  redis = await startRedis();
  folder = mkdtempSync(join(tmpdir(), 'statistics-'));
  mkdirSync(join(folder, 'config'));
  for (const rules of RULES) writeFileSync(join(folder, 'config', `${rules.domain[0]}.yaml`), JSON.stringify(rules));
});
afterAll(async () => {
  await redis.stop();
  rmSync(folder, { recursive: true });
});

type Env = Readonly<Record<string, string>>;

/** The services, with the same rules, each with its own counters. */
const services = {
  reference: (env: Env) => startReference({ folder, redisUrl: redis.url }, { CACHE_KEY_PREFIX: 'reference', ...env }),
  weir: (env: Env) =>
    startWeir({
      REDIS_URL: redis.url,
      RUNTIME_ROOT: folder,
      RUNTIME_SUBDIRECTORY: '.',
      CACHE_KEY_PREFIX: 'weir',
      ...env,
    }),
};

/** The statistics of the service after the requests, once the last one is counted. */
async function statisticsOf(
  service: { readonly grpcPort: number },
  read: () => Promise<ReadonlyMap<string, number>>,
): Promise<Readonly<Record<string, number>>> {
  const client = createClient(`127.0.0.1:${service.grpcPort}`);
  for (const [domain, entries] of REQUESTS) {
    const descriptor = { entries: entries.map(([key, value]) => ({ key, value })), limit: null, hits_addend: null };
    await client.send({ domain, descriptors: [{ ...descriptor, is_negative_hits: false }], hits_addend: 1 });
  }
  client.close();
  const totalOf = (counts: ReadonlyMap<string, number>) => {
    const calls = [...counts].filter(([name]) =>
      /^ratelimit_server.*total_requests|^ratelimit_service_total/.test(name),
    );
    return calls.reduce((sum, [, value]) => sum + value, 0);
  };
  await eventually(
    async () => totalOf(await read()) === REQUESTS.length,
    () => `${REQUESTS.length} counted requests`,
  );
  const counts = [...(await read())].filter(([name, value]) => value > 0 && /^ratelimit.service/.test(name));
  return Object.fromEntries(counts.filter(([name]) => !/response_time/.test(name)).sort());
}

async function prometheusOf(name: keyof typeof services) {
  const port = await freePort();
  const env = { USE_STATSD: 'false', USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: `127.0.0.1:${port}` };
  const service = await services[name]({ ...env, STATS_FLUSH_INTERVAL: '100ms', CACHE_KEY_PREFIX: `${name}-p` });
  try {
    return await statisticsOf(service, async () => {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      const samples = [...parseExposition(text).values()].flatMap((metric) => [...metric.samples]);
      return new Map(samples);
    });
  } finally {
    await service.stop();
  }
}

/** @param usesTags  DogStatsD */
async function statsdOf(name: keyof typeof services, usesTags = false) {
  const server = await (usesTags ? startUdpStatsd() : startTcpStatsd());
  const sink = usesTags ? { USE_STATSD: 'false', USE_DOG_STATSD: 'true' } : { USE_STATSD: 'true' };
  const env = { ...sink, STATSD_HOST: '127.0.0.1', STATSD_PORT: String(server.port), EXTRA_TAGS: 'zone:a.b,app:é' };
  const prefix = `${name}-${usesTags ? 'dogstatsd' : 'statsd'}`;
  const service = await services[name]({ ...env, STATS_FLUSH_INTERVAL: '100ms', CACHE_KEY_PREFIX: prefix });
  try {
    return await statisticsOf(service, async () => {
      const sums = new Map<string, number>();
      for (const line of server.lines()) {
        // Weir replaces what daemons read as the beginning of tags, a documented difference
        const [, written = '', count, tags = ''] = /^([^:]*):(\d+)(?:\.0+)?\|c(\|#.*)?$/.exec(line) ?? [];
        const counter = written.replace(/[#,;[\]]/g, '_');
        const full = `${counter}${tags.split(/[#,]/).sort()}`;
        if (count !== undefined) sums.set(full, (sums.get(full) ?? 0) + Number(count));
      }
      return sums;
    });
  } finally {
    await service.stop();
    await server.close();
  }
}

test.each([
  ['Prometheus', prometheusOf],
  ['StatsD', (name: keyof typeof services) => statsdOf(name)],
  ['DogStatsD', (name: keyof typeof services) => statsdOf(name, true)],
])('%s has the same statistics as envoyproxy/ratelimit, also for odd values', async (_, statistics) => {
  const [expected, ours] = [await statistics('reference'), await statistics('weir')];
  expect(Object.keys(expected).length).toBeGreaterThan(VALUES.length);
  expect(ours).toEqual(expected);
});
