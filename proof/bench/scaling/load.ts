/** The load of an installation. The first three properties are its size; the others describe the traffic. */
export interface ScaledLoad {
  readonly decisionsPerSecond: number;
  /** The number of counters that exist at a time. */
  readonly keys: number;
  readonly proxies: number;
  /** Connections of a proxy: Envoy opens one for each of its worker threads. */
  readonly threadsPerProxy: number;
  /** The fraction of decisions about a few keys, such as limits of a whole backend. */
  readonly hotShare: number;
  readonly hotKeys: number;
  /** The refused fraction of decisions, and their number of keys. */
  readonly overShare: number;
  readonly overKeys: number;
  /** How long a refusal can be cached: until the window ends. */
  readonly refusalMs: number;
}

/** The features that are switched on. */
export interface Switches {
  /** `LOCAL_CACHE_SIZE_IN_BYTES`. */
  readonly denyCache: boolean;
  /** `consistency: leased` for the hot keys. */
  readonly leases: boolean;
  /** `REDIS_TYPE=CLUSTER`; otherwise one Redis in each group. */
  readonly cluster: boolean;
  /**
   * Proxies limit hot keys with shares (`RLQS`), with a rule for each of this many parts of the proxies; 0 to disable.
   */
  readonly quotaParts: number;
  /** The number of sites; each has its own instances and Redis, for nearby proxies. */
  readonly sites: number;
  /** The number of groups in a site: each has its own instances and Redis, for a part of the keys. */
  readonly groups: number;
}

/** Parameters of capacity planning. */
export interface Planning {
  /** The fraction of a core to use; the rest is for peaks and failed instances. */
  readonly utilization: number;
  /** How long requests gather for a call to Redis: half a round trip, since two calls are in flight at a time. */
  readonly gatherMs: number;
  readonly redisNodeBytes: number;
}

/** The size of the paper's example, with its assumptions about traffic. */
export const largeLoad: ScaledLoad = {
  decisionsPerSecond: 1e7,
  keys: 1e9,
  proxies: 1e5,
  threadsPerProxy: 4,
  hotShare: 0.2,
  hotKeys: 100,
  overShare: 0.1,
  overKeys: 10_000,
  refusalMs: 30_000,
};

export const nothingOn: Switches = {
  denyCache: false,
  leases: false,
  cluster: false,
  quotaParts: 0,
  sites: 1,
  groups: 1,
};

export const defaultPlanning: Planning = { utilization: 0.5, gatherMs: 0.25, redisNodeBytes: 32 * 2 ** 30 };
