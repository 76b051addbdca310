/** `redis6`: a single Redis 6.2. */
export const topologies = ['single', 'redis6', 'sentinel', 'cluster', 'memcached'] as const;
export type Topology = (typeof topologies)[number];

/** A rule under test: the numbers for both the service and the checker. */
export interface ChaosRule {
  /** The key of its descriptor's only entry. */
  readonly key: string;
  readonly algorithm: ChaosAlgorithm;
  /** Hits per window; for `in_flight`: slots. */
  readonly limit: number;
  /** For `in_flight`: the ttl of a slot. */
  readonly windowMs: number;
  /** For the two buckets, and for `reserve`, which counts with a token bucket. */
  readonly burst?: number;
  /** For `reserve`: how long hits stay on hold without a commit. */
  readonly ttlMs?: number;
  /** For `reserve`: hits without a commit are free after the ttl. Default: they stay charged. */
  readonly isFreed?: true;
  readonly onStoreFailure: 'error' | 'allow' | 'deny' | 'local';
  /** For `local`: the number of processes that share the limit. */
  readonly localShare?: number;
  readonly isLeased?: true;
  /** Never reached in a run: at its end, the hits that the store has counted are compared with the calls. */
  readonly isTotal?: true;
  /** How often its key is requested, relative to others. */
  readonly weight: number;
}

type ChaosAlgorithm =
  | 'fixed_window'
  | 'sliding_window_log'
  | 'sliding_window_counter'
  | 'sliding_window_buckets'
  | 'token_bucket'
  | 'leaky_bucket'
  | 'in_flight'
  | 'reserve';

export const DOMAIN = 'chaos';
/** The key of the entry with a request's id. */
export const ID_KEY = 'id';
/** The key of the additional entry of a commit. */
export const USED_KEY = 'used';

/** The number of processes that answer, by instance: one has workers. */
export const WORKERS: readonly number[] = [1, 2, 1];
export const INSTANCES = WORKERS.length;
/** The instances that reach a single server through a proxy. */
export const LOSSY: ReadonlySet<number> = new Set([1, 2]);
/** The instance whose workers are killed. */
export const WITH_WORKERS = 1;
const PROCESSES = WORKERS.reduce((sum, workers) => sum + workers, 0);

const strict = { onStoreFailure: 'error', weight: 1 } as const;
const shared = { onStoreFailure: 'local', localShare: PROCESSES, weight: 1 } as const;
const reserved = {
  ...strict,
  algorithm: 'reserve',
  limit: 20,
  windowMs: 1_000,
  burst: 60,
  ttlMs: 2_000,
  weight: 2,
} as const;

/** Every algorithm, every policy and leases, with limits that the clients reach. */
const rules: readonly ChaosRule[] = [
  { ...strict, key: 'fixed', algorithm: 'fixed_window', limit: 40, windowMs: 3_000 },
  { ...strict, key: 'log', algorithm: 'sliding_window_log', limit: 25, windowMs: 2_000 },
  { ...strict, key: 'counter', algorithm: 'sliding_window_counter', limit: 25, windowMs: 2_000 },
  { ...strict, key: 'buckets', algorithm: 'sliding_window_buckets', limit: 25, windowMs: 2_000 },
  { ...strict, key: 'token', algorithm: 'token_bucket', limit: 12, windowMs: 1_000, burst: 20 },
  { ...strict, key: 'leaky', algorithm: 'leaky_bucket', limit: 12, windowMs: 1_000, burst: 5 },
  { ...strict, key: 'slots', algorithm: 'in_flight', limit: 6, windowMs: 1_500 },
  { ...reserved, key: 'tokens', isFreed: true },
  { ...reserved, key: 'kept-tokens' },
  { ...strict, key: 'allow', algorithm: 'fixed_window', limit: 25, windowMs: 2_000, onStoreFailure: 'allow' },
  { ...strict, key: 'deny', algorithm: 'sliding_window_log', limit: 25, windowMs: 2_000, onStoreFailure: 'deny' },
  { ...shared, key: 'local', algorithm: 'fixed_window', limit: 24, windowMs: 4_000 },
  { ...shared, key: 'local-token', algorithm: 'token_bucket', limit: 12, windowMs: 1_000, burst: 18 },
  {
    ...shared,
    key: 'total',
    algorithm: 'fixed_window',
    limit: 1_000_000_000,
    windowMs: 31_536_000_000,
    isTotal: true,
    weight: 2,
  },
  { ...strict, key: 'leased', algorithm: 'fixed_window', limit: 120, windowMs: 4_000, isLeased: true, weight: 4 },
  {
    ...strict,
    key: 'leased-token',
    algorithm: 'token_bucket',
    limit: 24,
    windowMs: 1_000,
    burst: 30,
    isLeased: true,
    weight: 4,
  },
];

/** The rules that a topology supports: memcached has no logs, leases, slots and reservations. */
export const selectRules = (topology: Topology): readonly ChaosRule[] =>
  topology === 'memcached'
    ? rules.filter(({ key, algorithm, isLeased }) => key !== 'log' && !hasIds(algorithm) && !isLeased).map(withoutLog)
    : rules;

/** Whether requests have ids, since their slots or reservations expire. */
export const hasIds = (algorithm: ChaosAlgorithm): boolean => algorithm === 'in_flight' || algorithm === 'reserve';

const withoutLog = (rule: ChaosRule): ChaosRule =>
  rule.algorithm === 'sliding_window_log' ? { ...rule, algorithm: 'sliding_window_counter' } : rule;

/** The rule file. JSON is YAML. */
export const ruleFile = (rules: readonly ChaosRule[]): string =>
  JSON.stringify({ domain: DOMAIN, descriptors: rules.map(createNode) });

function createNode(rule: ChaosRule): object {
  const { key, algorithm, limit, windowMs, burst, ttlMs, onStoreFailure, localShare, isLeased, isFreed } = rule;
  const common = { algorithm, requests_per_unit: limit, on_store_failure: onStoreFailure };
  if (algorithm === 'in_flight') {
    const rate_limit = { ...common, ttl: `${windowMs}ms` };
    return { key, descriptors: [{ key: ID_KEY, not_counted: 'hold', rate_limit }] };
  }
  if (algorithm === 'reserve') {
    const reserve = { ttl: `${ttlMs}ms`, on_overrun: 'debt', ...(isFreed && { on_lapse: 'free' }) };
    const rate_limit = { ...common, algorithm: 'token_bucket', window: `${windowMs}ms`, burst, reserve };
    const descriptors = [{ key: USED_KEY, not_counted: 'commit' }];
    return { key, descriptors: [{ key: ID_KEY, not_counted: 'hold', rate_limit, descriptors }] };
  }
  return {
    key,
    rate_limit: {
      ...common,
      window: `${windowMs}ms`,
      ...(burst !== undefined && { burst }),
      ...(algorithm === 'sliding_window_buckets' && { buckets: 10 }),
      ...(localShare !== undefined && { local_share: localShare }),
      ...(isLeased && { consistency: 'leased' }),
    },
  };
}
