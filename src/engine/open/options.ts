import { getHeapStatistics } from 'node:v8';
import type { Clock, Monotonic } from '../../base/clock.ts';
import type { Spend } from '../algorithms/limit.ts';
import type { Backend } from '../backends/backend.ts';
import type { ClientTls } from '../backends/tls.ts';
import type { SiteSplit } from '../holds/claim.ts';
import type { StoreTraits } from '../rules/compile/fit.ts';

/** An option cannot be used, such as a malformed address or a certificate file that cannot be read. */
export class InvalidOptions extends Error {
  override readonly name = 'InvalidOptions';
  /** The name of the option: `store.redis`. */
  readonly option: string;
  /** Problem with its value. */
  readonly problem: string;
  constructor(option: string, problem: string) {
    super(`${option}: ${problem}`);
    this.option = option;
    this.problem = problem;
  }
}

/** The store of the counters. */
export type StoreOptions = 'memory' | RedisStore | MemcachedStore | OwnStore;

/** Counters in Redis, shared with all engines and services that use it. */
export interface RedisStore {
  /**
   * A single server as `redis://[user:password@]host:port[/database]`, `rediss://…` for TLS, or the path of a socket;
   * an object for sentinels, a Cluster or certificates.
   */
  readonly redis: string | RedisOptions;
  /** A separate Redis for the counters of limits per second, if any. */
  readonly perSecond?: string | RedisOptions | undefined;
}

/** A host and its port. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** Credentials of a server. */
export interface Credentials {
  readonly username?: string;
  readonly password?: string;
}

/** The address of a Redis: a single server, a master behind sentinels, or some nodes of a Cluster. */
export type RedisAddress =
  | ({ readonly kind: 'unix'; readonly path: string } & Credentials & Database)
  | ({ readonly kind: 'tcp'; readonly tls: boolean } & Endpoint & Credentials & Database)
  | ({
      readonly kind: 'sentinel';
      readonly master: string;
      readonly sentinels: readonly Endpoint[];
      /** For the sentinels and the master. */
      readonly tls?: boolean;
      readonly sentinelCredentials?: Credentials;
    } & Credentials)
  | ({ readonly kind: 'cluster'; readonly nodes: readonly Endpoint[]; readonly tls?: boolean } & Credentials);

interface Database {
  readonly database: number;
}

/** The connection to one Redis. */
export interface RedisOptions {
  readonly address: RedisAddress;
  /** Options of TLS. Default: plain text, unless the address requires TLS. */
  readonly tls?: ClientTls | undefined;
  /** Credentials for the sentinels. */
  readonly sentinelCredentials?: Credentials;
  /** Default: 10,000. */
  readonly connectTimeoutMs?: number;
}

/** Counters in memcached. */
export interface MemcachedStore {
  /** `host:port` of each server, or the DNS record that names them; `refreshMs` is 0 to resolve it once. */
  readonly memcached: readonly string[] | { readonly srv: string; readonly refreshMs: number };
  /** Options of TLS. Default: plain text. */
  readonly tls?: ClientTls | undefined;
}

/** Counters in a backend that the caller has opened. The engine closes it. */
export interface OwnStore {
  readonly backend: Backend;
}

/** The names of counters. */
export interface KeyOptions {
  /** `own` (default): keys that cannot collide; `reference`: as in envoyproxy/ratelimit, in Redis or memcached. */
  readonly kind?: 'own' | 'reference';
  /** Precedes every key; default: empty. */
  readonly prefix?: string;
  /** `domain`: all counters of a domain are on one node of a Redis Cluster; default: `none`. */
  readonly hashTag?: 'none' | 'domain';
  /** With `reference`: maximum random extension of the time to live of a counter; default: 300. */
  readonly jitterMaxSeconds?: number;
}

/** How and where hits are counted. */
export interface CounterOptions {
  /** Default: `memory`, which is lost when the process ends. */
  readonly store?: StoreOptions;
  readonly keys?: KeyOptions;
  /** Bounds of the counters in this process, beyond which cold ones are evicted. */
  readonly memory?: {
    /** Default: 1,000,000. */
    readonly maxCounters?: number;
    /** Default: a quarter of the heap limit of V8. */
    readonly maxBytes?: number;
  };
  /** Memory for remembered refusals, which are repeated without the store. Default: 0, to remember none. */
  readonly refusalCacheBytes?: number;
  /** Whether known refusals stand while the store does not answer, despite `on_store_failure`. Default: true. */
  readonly keepRefusals?: boolean;
  /** Maximum number of counters whose hits are leased in blocks, in Redis only; default: 100,000. */
  readonly maxLeases?: number;
  /** Maximum wait for the store. Default: three quarters of the caller's timeout, at most 1,000; 250 without one. */
  readonly storeTimeoutMs?: number | undefined;
  /** Delays between attempts before the first connection to Redis, doubled each time; default: 1,000 and 30,000. */
  readonly startup?: { readonly initialMs: number; readonly maxMs: number };
  /**
   * What a refused request spends of its other limits in domains whose rules do not set it; default: `each`. The others
   * require a store that counts a request in one step, which a Cluster without `hashTag` and memcached do not.
   */
  readonly spend?: Spend;
  /** `leased`: Redis leases limits in blocks where it can, unless rules set `consistency`; default: `strict`. */
  readonly consistency?: 'strict' | 'leased';
  /** Counts the admitted hits of each counter by the hour, in memory or Redis; default: false. @internal */
  readonly usage?: boolean;
  /** Milliseconds since the epoch; default: `Date.now`. Redis decides on its own clock. */
  readonly clock?: Clock;
  /** Default: `performance.now`. */
  readonly monotonicMs?: Monotonic;
  /** Called with each event of the store, for logs. Outages repeat their event with each attempt. */
  readonly onStoreEvent?: (event: StoreEvent) => void;
  /** The division of limits that sites share. @internal */
  readonly split?: SiteSplit | undefined;
}

/**
 * up             a connection is usable
 * down           there is no connection
 * refuses_calls  the store refused a call
 * cannot_count   the store failed the test for whether it can count
 * accepts_calls  the store can count again
 * counts_windows_only  the store runs no scripts, and counts fixed windows alone
 * slow           most replies take longer than any caller waits
 * late           this process was too late to wait for an answer
 * invalid_tls    certificate files cannot be used; the last usable ones stay in use
 */
export type StoreEvent =
  | { readonly kind: 'up' | 'accepts_calls'; readonly server: string }
  | {
      readonly kind: 'down' | 'refuses_calls' | 'cannot_count' | 'counts_windows_only';
      readonly server: string;
      readonly reason: string;
    }
  | { readonly kind: 'slow'; readonly server: string; readonly tookMs: number }
  | { readonly kind: 'late'; readonly server: string; readonly latenessMs: number }
  | { readonly kind: 'invalid_tls'; readonly server: string; readonly reason: string };

/** Fraction of the heap limit that counters in memory may take by default. */
const HEAP_SHARE = 1 / 4;
const MAX_COUNTERS = 1_000_000;
const JITTER_MAX_SECONDS = 300;

/** The default memory for counters in this process. @internal */
export const defaultMemoryBytes = (): number => Math.floor(getHeapStatistics().heap_size_limit * HEAP_SHARE);

/** The options for keys, with their defaults. @internal */
export const keyOptions = ({ keys }: Pick<CounterOptions, 'keys'>): Required<KeyOptions> => ({
  kind: keys?.kind ?? 'own',
  prefix: keys?.prefix ?? '',
  hashTag: keys?.hashTag ?? 'none',
  jitterMaxSeconds: keys?.jitterMaxSeconds ?? JITTER_MAX_SECONDS,
});

/** The bounds of counters in this process, with their defaults. @internal */
export const memoryBounds = ({ memory }: Pick<CounterOptions, 'memory'>) => ({
  maxCounters: memory?.maxCounters ?? MAX_COUNTERS,
  maxBytes: memory?.maxBytes ?? defaultMemoryBytes(),
});

/** The capabilities of the store, without opening it. @internal */
export function storeTraits(options: CounterOptions): StoreTraits {
  const { store = 'memory', spend = 'each', split, consistency } = options;
  const common = {
    atomic: atomicScope(options),
    keepsEntries: true,
    leases: false,
    leasesByDefault: consistency === 'leased',
    spend,
    split,
    needsScripts: keyOptions(options).kind === 'reference' ? 'keys: reference' : options.usage ? 'usage' : undefined,
  };
  if (store === 'memory') return { ...common, name: 'memory' };
  if ('redis' in store) return { ...common, name: 'these Redis', leases: true };
  if ('backend' in store) return { ...common, name: 'this store' };
  return { ...common, name: 'memcached', keepsEntries: false };
}

/** Whether a request or each of its counters is one atomic step. */
function atomicScope(options: CounterOptions): StoreTraits['atomic'] {
  const { store = 'memory' } = options;
  if (store === 'memory') return 'request';
  if ('backend' in store) return store.backend.atomic;
  if (!('redis' in store) || store.perSecond) return 'counter';
  return atomicOfRedis(store.redis, keyOptions(options));
}

/** Keys of one request may be on several nodes of a Cluster, unless all keys of a domain are on one. @internal */
export function atomicOfRedis(
  redis: RedisStore['redis'],
  keys: Pick<Required<KeyOptions>, 'kind' | 'hashTag'>,
): StoreTraits['atomic'] {
  const isCluster = typeof redis !== 'string' && redis.address.kind === 'cluster';
  return isCluster && !(keys.hashTag === 'domain' && keys.kind === 'own') ? 'counter' : 'request';
}
