import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createAuthority, writeCertificate } from '../../test/helpers/certificates.ts';
import { createClient } from '../../test/helpers/grpc-client.ts';
import { freePort } from '../../test/helpers/process.ts';
import { startQuotaEnvoy } from '../../test/helpers/quota-envoy.ts';
import { mostAboveBound, startQuotaLoad } from '../../test/helpers/quota-load.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { startWeir } from '../../test/helpers/weir.ts';
import { type OnEnd, temporaryFolder, withCleanup } from '../processes/cleanup.ts';
import { tableHead, tableRow } from '../tables/table.ts';

const RATE = 100;
const BURST = 200;
/** The total rate of two callers; first one of them sends the larger part, then the other. */
const OFFERED = 2 * RATE;
const SKEW = 0.9;
const SETTLING_MS = 20_000;
const HALF_SECONDS = 15;
const RULES_FILE = 'rules.yaml';

/** One caller, with the service that decides its requests. */
interface Caller {
  passes(): Promise<boolean>;
}

interface Way {
  readonly name: string;
  /** Permitted beyond the rate: the burst, and what separate proxies may add. */
  readonly burst: number;
  readonly keys: string;
  /** Opens two callers, with one service or one each. */
  open(rules: string, folder: string, onEnd: OnEnd): Promise<readonly Caller[]>;
}

export const usage = `Usage: npm run proof -- sites

Measures what one rule admits of two callers that together send twice its rate, nine tenths of it first by one and then by the other:
with one Redis, with leases, with quotas of two Envoys, and with two sites. Starts Redis, Weir and Envoys of its own. Takes about five minutes.
`;

const service = async (
  folder: string,
  env: Readonly<Record<string, string>>,
  onEnd: OnEnd,
): Promise<Caller & { readonly grpcPort: number }> => {
  const weir = await startWeir({
    RULES_PATH: join(folder, RULES_FILE),
    USE_STATSD: 'false',
    BACKEND_TYPE: 'redis',
    ...env,
  });
  onEnd(() => weir.stop());
  const client = createClient(`127.0.0.1:${weir.grpcPort}`);
  onEnd(() => client.close());
  const entries = [{ key: 'generic_key', value: 'all' }];
  const descriptors = [{ entries, limit: null, hits_addend: null, is_negative_hits: false }];
  return {
    grpcPort: weir.grpcPort,
    passes: async () => (await client.send({ domain: 'edge', descriptors, hits_addend: 1 })).overall_code === 1,
  };
};

async function startOwnRedis(onEnd: OnEnd): Promise<string> {
  const redis = await startRedis();
  onEnd(() => redis.stop());
  return redis.url;
}

const oneRedis: Way['open'] = async (_, folder, onEnd) => {
  const env = { REDIS_URL: await startOwnRedis(onEnd) };
  return Promise.all([service(folder, env, onEnd), service(folder, env, onEnd)]);
};

const quotas: Way['open'] = async (rules, folder, onEnd) => {
  const { grpcPort } = await service(folder, { RLQS: 'true', REDIS_URL: await startOwnRedis(onEnd) }, onEnd);
  const envoys = await Promise.all([0, 1].map((at) => startQuotaEnvoy(rules, grpcPort, { name: `envoy-${at}` })));
  for (const envoy of envoys) onEnd(() => envoy.stop());
  return envoys;
};

const twoSites: Way['open'] = async (_, folder, onEnd) => {
  const authority = createAuthority();
  const ca = writeCertificate(folder, 'authority', authority).cert;
  const ports = [await freePort(), await freePort()];
  const names = ['east', 'west'];
  return Promise.all(
    names.map(async (name, at) => {
      const { cert, key } = writeCertificate(folder, name, authority.issue('127.0.0.1'));
      return service(
        folder,
        {
          REDIS_URL: await startOwnRedis(onEnd),
          SITE: name,
          SITE_HOST: '127.0.0.1',
          SITE_PORT: String(ports[at]),
          SITE_PEERS: `${names[1 - at]}=127.0.0.1:${ports[1 - at]}`,
          SITE_TLS_CERT: cert,
          SITE_TLS_KEY: key,
          SITE_TLS_CACERT: ca,
        },
        onEnd,
      );
    }),
  );
};

const ways: readonly Way[] = [
  { name: 'one Redis', burst: BURST, keys: '', open: oneRedis },
  { name: 'one Redis, leased', burst: BURST, keys: ', consistency: leased', open: oneRedis },
  { name: 'quotas of two Envoys (RLQS)', burst: BURST + 2, keys: '', open: quotas },
  { name: 'two sites, escrow', burst: BURST, keys: ', sites: { mode: escrow }', open: twoSites },
  {
    name: 'two sites, optimistic, max_error 5 %',
    burst: 1.05 * BURST,
    keys: ', sites: { mode: optimistic, max_error: 5% }',
    open: twoSites,
  },
];

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  console.log(`A token bucket of ${RATE} requests a second, burst ${BURST}. Two callers send ${OFFERED} a second; ${100 * SKEW} % of them the first one, then the second one.
"Beyond the bound" is the most in any window of time; 0 or less is within it. A timer that is late by a millisecond shows as ${RATE / 1_000} of a request.
`);
  const columns = [
    'limited by',
    'sent',
    'admitted',
    'limit',
    'of the rate',
    'declared bound in a time T',
    'beyond the bound',
  ];
  console.log(tableHead(columns));
  for (const way of ways) console.log(await withCleanup((onEnd) => measure(way, onEnd)));
}

async function measure({ name, burst, keys, open }: Way, onEnd: OnEnd): Promise<string> {
  const rules = `domain: edge\ndescriptors: [{ key: generic_key, value: all, rate_limit: { unit: second, requests_per_unit: ${RATE}, algorithm: token_bucket, burst: ${BURST}${keys} } }]\n`;
  const folder = temporaryFolder('sites', onEnd);
  writeFileSync(join(folder, RULES_FILE), rules);
  const callers = await open(rules, folder, onEnd);
  const shares = [SKEW, 1 - SKEW];
  const loads = callers.map((caller, at) => startQuotaLoad(caller, OFFERED * (shares[at] ?? 0)));
  await sleep(SETTLING_MS);
  const sent = (): number => loads.reduce((sum, load) => sum + load.sent(), 0);
  const sentBefore = sent();
  const fromMs = performance.now();
  await sleep(HALF_SECONDS * 1_000);
  for (const [at, load] of loads.entries()) load.perSecond = OFFERED * (shares[1 - at] ?? 0);
  await sleep(HALF_SECONDS * 1_000);
  const untilMs = performance.now();
  const sentSince = sent() - sentBefore;
  await Promise.all(loads.map((load) => load.stop()));
  const passed = loads.flatMap((load) =>
    load.passed.filter(({ answeredAtMs }) => answeredAtMs >= fromMs && answeredAtMs < untilMs),
  );
  const limit = (RATE * (untilMs - fromMs)) / 1_000;
  const share = ((100 * passed.length) / limit).toFixed(1);
  const beyond = mostAboveBound(passed, RATE, burst).toFixed(1);
  return tableRow([name, sentSince, passed.length, limit.toFixed(0), `${share} %`, `${RATE} × T + ${burst}`, beyond]);
}
