import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, type GrpcClient } from '../../helpers/grpc-client.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';
import { startWeir } from '../../helpers/weir.ts';

/** Two instances of two workers each, which count in one Redis. */

const LIMIT = 100;
const CALLS = 400;
const CONNECTIONS = 10; // to each instance, so that each worker has some
const OK = 1;

/** By key, a limit that restores no hit during the test. */
const limits = {
  fixed_window: `unit: year, requests_per_unit: ${LIMIT}`,
  first_hit: `unit: year, requests_per_unit: ${LIMIT}, alignment: first_hit`,
  sliding_window_log: `unit: year, requests_per_unit: ${LIMIT}, algorithm: sliding_window_log`,
  sliding_window_counter: `unit: year, requests_per_unit: ${LIMIT}, algorithm: sliding_window_counter`,
  sliding_window_buckets: `unit: year, requests_per_unit: ${LIMIT}, algorithm: sliding_window_buckets, buckets: 10`,
  token_bucket: `unit: year, requests_per_unit: 1, algorithm: token_bucket, burst: ${LIMIT}`,
  leaky_bucket: `unit: year, requests_per_unit: 1, algorithm: leaky_bucket, burst: ${LIMIT}`,
  in_flight: `requests_per_unit: ${LIMIT}, algorithm: in_flight, ttl: 1d`,
};
const leased = {
  leased_window: `unit: year, requests_per_unit: ${LIMIT}, consistency: leased`,
  leased_bucket: `unit: year, requests_per_unit: 1, algorithm: token_bucket, burst: ${LIMIT}, consistency: leased`,
};

let redis: Redis;
let folder: string;
let clients: readonly GrpcClient[];
const stops: (() => unknown)[] = [];

beforeAll(async () => {
  redis = await startRedis();
  folder = mkdtempSync(join(tmpdir(), 'totals-'));
  const rules = Object.entries({ ...limits, ...leased }).map(
    ([key, limit]) => `  - {key: ${key}, rate_limit: {${limit}}}`,
  );
  writeFileSync(join(folder, 'rules.yaml'), ['domain: demo', 'descriptors:', ...rules].join('\n'));
  const env = { WORKERS: '2', REDIS_URL: redis.url, USE_STATSD: 'false', LOCAL_CACHE_SIZE_IN_BYTES: '1000000' };
  const pair = await Promise.all([1, 2].map(() => startWeir(env, { args: ['--rules', join(folder, 'rules.yaml')] })));
  clients = pair.flatMap(({ grpcPort }) =>
    Array.from({ length: CONNECTIONS }, () => createClient(`127.0.0.1:${grpcPort}`)),
  );
  stops.push(...pair.map(({ stop }) => stop), ...clients.map(({ close }) => close));
});
afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
  await redis.stop();
});

/** Sends one hit with each of these calls at once, over all connections in turn. @returns the number that passed */
async function passedOf(key: string, calls: number): Promise<number> {
  const entries = [{ key, value: 'a' }];
  const descriptors = [{ entries, limit: null, hits_addend: null, is_negative_hits: false }];
  const sent = Array.from({ length: calls }, (_, at) =>
    clients[at % clients.length]?.send({ domain: 'demo', descriptors, hits_addend: 1 }),
  );
  const answers = await Promise.all(sent);
  return answers.filter((answer) => answer?.overall_code === OK).length;
}

test.each(Object.keys(limits))(
  `${CALLS} parallel calls to two instances of two workers admit exactly the limit: %s`,
  async (key) => {
    expect(await passedOf(key, CALLS)).toBe(LIMIT);
    expect(await passedOf(key, clients.length)).toBe(0);
  },
);

test.each(Object.keys(leased))(
  `${CALLS} parallel calls to two instances of two workers never exceed the limit, and no leased hit is lost: %s`,
  async (key) => {
    let passed = 0;
    for (let part = 0; part < 4; part++) passed += await passedOf(key, CALLS / 4);
    // hits that are leased and not used are given back
    await until('the whole limit to pass', async () => {
      passed += await passedOf(key, clients.length);
      return passed >= LIMIT;
    });
    expect(passed).toBe(LIMIT);
    expect(await passedOf(key, clients.length)).toBe(0);
  },
);
