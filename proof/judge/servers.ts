import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Declaration, readDeclaration } from '../../conformance/src/judge/limits.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { startCluster } from '../../test/helpers/redis-topologies.ts';
import { startReference } from '../../test/helpers/reference.ts';
import { startWeir, type Weir } from '../../test/helpers/weir.ts';

/** A server that runs, and what it is said to do. */
export interface Judged {
  readonly targets: readonly string[];
  readonly declaration: Declaration;
  /** Ends the first instance as a crash does, if there are two. */
  crash(): Promise<unknown>;
  stop(): Promise<unknown>;
}

const rate = { limit: 10, window_ms: 1_000, max_hits: 3 };
const spend = (name: string, own: object = {}) => ({
  ...{ name, domain: 'judge', descriptor: { [name]: '{key}' }, algorithm: name },
  ...rate,
  ...own,
});

/** What the rules below say, in the judge's words. */
const weirLimits = [
  spend('fixed_window', { counts_refused: true }),
  spend('sliding_window_log'),
  spend('sliding_window_counter'),
  spend('token_bucket', { burst: 15 }),
  spend('leaky_bucket', { burst: 5 }),
  {
    ...{ name: 'in_flight', domain: 'judge', descriptor: { tenant: '{key}', request: '{holder}' } },
    ...{ algorithm: 'in_flight', limit: 4, ttl_ms: 30_000 },
  },
];

const WEIR_RULES = `
domain: judge
descriptors:
  - key: fixed_window
    rate_limit: { unit: second, requests_per_unit: 10, algorithm: fixed_window }
  - key: sliding_window_log
    rate_limit: { unit: second, requests_per_unit: 10, algorithm: sliding_window_log }
  - key: sliding_window_counter
    rate_limit: { unit: second, requests_per_unit: 10, algorithm: sliding_window_counter }
  - key: token_bucket
    rate_limit: { unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 15 }
  - key: leaky_bucket
    rate_limit: { unit: second, requests_per_unit: 10, algorithm: leaky_bucket, burst: 5 }
  - key: tenant
    descriptors:
      - key: request
        not_counted: hold
        rate_limit: { algorithm: in_flight, requests_per_unit: 4, ttl: 30s }
`;

const REFERENCE_RULES = `
domain: judge
descriptors:
  - key: fixed_window
    rate_limit: { unit: second, requests_per_unit: 10 }
`;

const declare = (limits: readonly object[]): Declaration =>
  readDeclaration(JSON.stringify({ skew_ms: 20, late_ms: 5_000, limits }));

/** Weir with counters in memory. */
export async function weirInMemory(): Promise<Judged> {
  const folder = rulesIn(WEIR_RULES);
  const weir = await startWeir({ BACKEND_TYPE: 'memory', RULES_PATH: join(folder, 'config'), LOG_LEVEL: 'ERROR' });
  return {
    targets: [`127.0.0.1:${weir.grpcPort}`],
    declaration: declare(weirLimits),
    crash: () => Promise.resolve(),
    stop: () => weir.stop('SIGKILL').finally(() => rmSync(folder, { recursive: true })),
  };
}

/** Two instances of Weir with one Redis. */
export const weirOnRedis = async (): Promise<Judged> => weirPair(await startRedis(), {}, weirLimits);

/** Two instances of Weir with a Redis Cluster. */
export async function weirOnCluster(): Promise<Judged> {
  const cluster = await startCluster();
  const url = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join(',');
  return weirPair({ url, stop: () => cluster.stop() }, { REDIS_TYPE: 'CLUSTER' }, weirLimits);
}

/** Two instances of Weir that lease hits: what one has leased and not used is refused by the other. */
export const weirWithLeases = async (): Promise<Judged> =>
  weirPair(await startRedis(), { CONSISTENCY: 'leased' }, weirLimits.map(withLeases));

const withLeases = (limit: (typeof weirLimits)[number]): object => {
  if (limit.name === 'fixed_window') return { ...limit, early: limit.limit };
  return limit.name === 'token_bucket' ? { ...limit, slack: limit.limit, early: limit.limit } : limit;
};

async function weirPair(
  store: { readonly url: string; stop(): Promise<unknown> },
  settings: Readonly<Record<string, string>>,
  limits: readonly object[],
): Promise<Judged> {
  const folder = rulesIn(WEIR_RULES);
  const env = { REDIS_URL: store.url, RULES_PATH: join(folder, 'config'), LOG_LEVEL: 'ERROR', ...settings };
  return pairOf(await Promise.all([startWeir(env), startWeir(env)]), store, folder, limits);
}

/** Two instances, which are ended with their store. */
const pairOf = (
  instances: readonly Pick<Weir, 'grpcPort' | 'stop'>[],
  store: { stop(): Promise<unknown> },
  folder: string,
  limits: readonly object[],
): Judged => ({
  targets: instances.map(({ grpcPort }) => `127.0.0.1:${grpcPort}`),
  declaration: declare(limits),
  crash: async () => instances[0]?.stop('SIGKILL'),
  async stop() {
    await Promise.all(instances.map((one) => one.stop('SIGKILL')));
    await store.stop();
    rmSync(folder, { recursive: true });
  },
});

/** Two instances of envoyproxy/ratelimit with one Redis. Its counters count refused calls as well. */
export async function referenceOnRedis(): Promise<Judged> {
  const [folder, redis] = [rulesIn(REFERENCE_RULES), await startRedis()];
  const site = { folder, redisUrl: redis.url };
  const instances = [await startReference(site), await startReference(site)];
  return pairOf(instances, redis, folder, [spend('fixed_window', { counts_refused: true })]);
}

function rulesIn(rules: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'judge-'));
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config', 'rules.yaml'), rules);
  return folder;
}
