import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Redis as Connection } from 'ioredis';
import { envoyConfiguration } from '../../src/parts/envoy/configuration.ts';
import { type QuotaEnvoyOptions, startQuotaEnvoy } from '../../test/helpers/quota-envoy.ts';
import { mostAboveBound, startQuotaLoad } from '../../test/helpers/quota-load.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { startWeir } from '../../test/helpers/weir.ts';
import { parseCount } from '../options.ts';
import { type OnEnd, temporaryFolder, withCleanup } from '../processes/cleanup.ts';
import { percent } from '../tables/figures.ts';
import { tableHead, tableRow } from '../tables/table.ts';
import { measureBuckets } from './quota-buckets.ts';

const RATE = 100;
const BURST = 50;
/** The load on all Envoys as a multiple of the rate; the first gets half of the load. */
const OFFERED = 2;
const SETTLING_MS = 20_000;
const MEASURED_SECONDS = 30;
/** Maximum number of buckets of one proxy. */
const MAX_BUCKETS = 10_000;

interface Way {
  readonly name: string;
  readonly consistency: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly print: QuotaEnvoyOptions['print'];
}

const asking: QuotaEnvoyOptions['print'] = (rules, domain, at) =>
  envoyConfiguration(rules, domain, { ...at, kind: 'envoy', timeoutMs: 2_000 });

const ways: readonly Way[] = [
  { name: '`ShouldRateLimit`', consistency: '', settings: {}, print: asking },
  { name: '`ShouldRateLimit`, leased', consistency: ', consistency: leased', settings: {}, print: asking },
  { name: 'RLQS', consistency: '', settings: { RLQS: 'true' }, print: undefined },
];

export const usage = `Usage: npm run proof -- quotas [options]

Measures how much 1, 3 and 10 Envoys admit of twice the rate of one rule: if they call Weir for each request, if Weir answers from leases,
and if they decide themselves with quotas. Starts Envoys, Weir and a Redis of its own. Takes about ten minutes.

  --buckets N  measures the cost of reports of N buckets, every 5 s, instead, with shares in memory and in Redis
  --streams N  number of proxies, each with an equal part of the buckets, at most 10,000 (20)
  --seconds N  duration (30)
  --help       prints this text
`;

const options = {
  buckets: { type: 'string' },
  streams: { type: 'string', default: '20' },
  seconds: { type: 'string', default: '30' },
} as const;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  if (values.buckets === undefined) return measureAll();
  const [buckets, streams] = [parseCount('--buckets', values.buckets), parseCount('--streams', values.streams)];
  if (buckets > streams * MAX_BUCKETS)
    throw new Error(`--buckets must be at most ${MAX_BUCKETS} for each of the ${streams} streams, got ${buckets}`);
  console.log(await measureBuckets({ buckets, streams, seconds: parseCount('--seconds', values.seconds) }));
}

async function measureAll(): Promise<void> {
  console.log(`A token bucket of ${RATE} requests a second, burst ${BURST}; half of the load goes to one Envoy. Bound: rate × T + burst + 1 for each Envoy.
"Above the bound" is the most in any window; 0 or less is within it.
`);
  console.log(
    tableHead([
      'limited by',
      'Envoys',
      'sent',
      'admitted',
      'of the rate',
      'above the bound',
      'Redis commands for each request',
    ]),
  );
  for (const way of ways)
    for (const count of [1, 3, 10]) console.log(await withCleanup((onEnd) => measure(way, count, onEnd)));
}

async function measure({ name, consistency, settings, print }: Way, count: number, onEnd: OnEnd): Promise<string> {
  const rules = `domain: edge\ndescriptors: [{ key: generic_key, value: all, rate_limit: { unit: second, requests_per_unit: ${RATE}, algorithm: token_bucket, burst: ${BURST}${consistency} } }]\n`;
  const path = join(temporaryFolder('quotas', onEnd), 'rules.yaml');
  writeFileSync(path, rules);
  const redis = await startRedis();
  onEnd(redis.stop);
  const connection = new Connection(redis.port, '127.0.0.1');
  onEnd(() => connection.disconnect());
  const env = { BACKEND_TYPE: 'redis', REDIS_URL: redis.url, RULES_PATH: path, USE_STATSD: 'false' };
  const weir = await startWeir({ ...env, ...settings });
  onEnd(weir.stop);
  const envoys = await Promise.all(
    Array.from({ length: count }, (_, at) =>
      startQuotaEnvoy(rules, weir.grpcPort, { name: `envoy-${at}`, ...(print && { print }) }),
    ),
  );
  onEnd(() => Promise.all(envoys.map((envoy) => envoy.stop())));
  const total = OFFERED * RATE;
  const loads = envoys.map((envoy, at) =>
    startQuotaLoad(envoy, count === 1 ? total : at === 0 ? total / 2 : total / 2 / (count - 1)),
  );
  await sleep(SETTLING_MS);
  const sentBefore = loads.reduce((sum, load) => sum + load.sent(), 0);
  const commandsBefore = await countCommands(connection);
  const fromMs = performance.now();
  await sleep(MEASURED_SECONDS * 1_000);
  const commands = (await countCommands(connection)) - commandsBefore;
  const untilMs = performance.now();
  await Promise.all(loads.map((load) => load.stop()));
  const sent = loads.reduce((sum, load) => sum + load.sent(), 0) - sentBefore;
  const passed = loads.flatMap((load) =>
    load.passed.filter(({ answeredAtMs }) => answeredAtMs >= fromMs && answeredAtMs < untilMs),
  );
  const share = passed.length / ((RATE * (untilMs - fromMs)) / 1_000);
  const above = Math.ceil(mostAboveBound(passed, RATE, BURST + count));
  const perRequest = (commands / sent).toFixed(3);
  return tableRow([name, count, sent, passed.length, percent(share), above, perRequest]);
}

/** Commands that Redis has run for clients. */
async function countCommands(connection: Connection): Promise<number> {
  const stats = await connection.info('commandstats');
  const calls = [...stats.matchAll(/^cmdstat_(?:eval|evalsha):calls=(\d+)/gm)];
  return calls.reduce((sum, [, count]) => sum + Number(count), 0);
}
