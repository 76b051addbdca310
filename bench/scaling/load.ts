/** What an installation has to decide. The first three are the size; the others describe the traffic. */
export interface ScaledLoad {
  readonly decisionsPerSecond: number;
  /** Counters that exist at a time. */
  readonly keys: number;
  readonly proxies: number;
  /** Connections of a proxy: Envoy opens one for each of its worker threads. */
  readonly threadsPerProxy: number;
  /** Part of the decisions that is about a few keys, such as limits of a whole backend. */
  readonly hotShare: number;
  readonly hotKeys: number;
  /** Part of the decisions that is refused, and on how many keys. */
  readonly overShare: number;
  readonly overKeys: number;
  /** For how long a refusal can be remembered: until the window ends. */
  readonly refusalMs: number;
}

/** What is switched on. */
export interface Switches {
  /** `LOCAL_CACHE_SIZE_IN_BYTES`. */
  readonly denyCache: boolean;
  /** `consistency: leased` for the hot keys. */
  readonly leases: boolean;
  /** `REDIS_TYPE=CLUSTER`; else one Redis in each group. */
  readonly cluster: boolean;
  /** Hot keys are limited by proxies, with shares (`RLQS`), and each rule is written for so many parts of the proxies; 0: off. */
  readonly quotaParts: number;
  /** Each with its own instances and Redis, for the proxies near it. */
  readonly sites: number;
  /** Of a site: instances with a Redis of their own, each for a part of the keys. */
  readonly groups: number;
}

/** How machines are planned. */
export interface Planning {
  /** Part of a core that is used: the rest is for peaks, and for instances that are lost. */
  readonly utilization: number;
  /** How long requests gather for a call to Redis: half of a round trip, as two calls are in flight at a time. */
  readonly gatherMs: number;
  readonly redisNodeBytes: number;
}

/** The size that the paper is about, with its assumptions about the traffic. */
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
  ...{ denyCache: false, leases: false, cluster: false },
  ...{ quotaParts: 0, sites: 1, groups: 1 },
};

export const usualPlanning: Planning = { utilization: 0.5, gatherMs: 0.25, redisNodeBytes: 32 * 2 ** 30 };
