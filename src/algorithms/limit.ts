/** The units of the Rate Limit Service, in milliseconds. Months and years are 30 and 365 days, as envoyproxy/ratelimit counts them. */
export const unitMs = {
  SECOND: 1_000,
  MINUTE: 60_000,
  HOUR: 3_600_000,
  DAY: 86_400_000,
  WEEK: 604_800_000,
  MONTH: 2_592_000_000,
  YEAR: 31_536_000_000,
} as const;

/** @see https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/ratelimit/v3/rls.proto */
export type Unit = keyof typeof unitMs;

/** The longest window a limit may have: a century, far below where milliseconds stop being exact integers. */
export const MAX_WINDOW_MS = 100 * unitMs.YEAR;

/** Counts stop here instead of losing precision: the largest integer that a double, and so Lua too, holds exactly. */
export const MAX_COUNT = Number.MAX_SAFE_INTEGER;

/** `retryAfterMs` of a request that no waiting makes acceptable, such as 5 hits on a limit of 3. */
export const NEVER_MS = Number.POSITIVE_INFINITY;

/** What every limit has, whatever its algorithm. */
interface AnyLimit {
  /** What the operator called it: shown to callers, and the handle for `replaces`. Empty where it has no name. */
  readonly name: string;
  /** What tells its counters from those of another limit on the same descriptor: `fixed_window|60000`. */
  readonly counter: string;
  /** Hits that pass in one window, 0 to 4,294,967,295. */
  readonly requestsPerUnit: number;
  /** Further hits that pass in a window, but flagged. 0: the limit is hard. */
  readonly soft: number;
  /** As callers are told: a window that no number of units describes has unit UNKNOWN. */
  readonly unit: Unit | 'UNKNOWN';
  /** Units in a window: 30 with SECOND is half a minute. */
  readonly unitMultiplier: number;
  /** The window's length, at most `MAX_WINDOW_MS`; of a calendar window the usual one. */
  readonly windowMs: number;
  /** What becomes of hits that the store cannot count; absent: their request has no answer. */
  readonly onStoreFailure?: StoreFailurePolicy;
  /** How many processes share the limit while each counts by itself: whole, at least 1. Absent: 1. */
  readonly localShare?: number;
  /** Hits may be answered from a block that a process has debited before; absent: each is counted by itself. */
  readonly consistency?: 'leased';
  /** Counts, but never refuses; absent: false. */
  readonly shadow?: true;
  /** Refuses a request only together with all its other quotas; absent: false. */
  readonly quota?: true;
}

/**
 * What becomes of hits that the store cannot count in time.
 *
 * allow  they pass
 * deny   they are refused
 * local  they are counted in this process, at the limit divided by `localShare`
 */
export const storeFailurePolicies = ['allow', 'deny', 'local'] as const;
export type StoreFailurePolicy = (typeof storeFailurePolicies)[number];

/** Where windows begin: on multiples of their length since the epoch, with a counter's first hit, or with a date. */
export type Alignment = 'epoch' | 'first_hit' | Calendar;

/** The boundaries of calendar windows: midnights, Mondays, firsts of months in some time zone. */
export interface Calendar {
  /** A name of the IANA database. */
  readonly timeZone: string;
  /** Four boundaries in a row, the second at or before `nowMs`, the third after it. Milliseconds since the epoch. */
  around(nowMs: number): readonly [number, number, number, number];
}

export interface FixedWindowLimit extends AnyLimit {
  readonly algorithm: 'fixed_window';
  readonly alignment: Alignment;
}

export interface SlidingWindowLogLimit extends AnyLimit {
  readonly algorithm: 'sliding_window_log';
  /** Refused hits stay in the log, so that who keeps asking keeps being refused. */
  readonly countDenied: boolean;
}

export interface SlidingWindowCounterLimit extends AnyLimit {
  readonly algorithm: 'sliding_window_counter';
  /** What becomes of a fraction of a hit in the estimate: `down` admits, `up` refuses. */
  readonly rounding: 'down' | 'up';
}

export interface SlidingWindowBucketsLimit extends AnyLimit {
  readonly algorithm: 'sliding_window_buckets';
  /** Equal parts of the window, 1 to 100; it divides `windowMs`. */
  readonly buckets: number;
}

export interface TokenBucketLimit extends AnyLimit {
  readonly algorithm: 'token_bucket';
  /** Tokens that a full bucket holds, at least 1. */
  readonly burst: number;
  /** Refilled evenly, or `requestsPerUnit` tokens in one go on the window's boundaries. */
  readonly refill: 'continuous' | 'interval';
  /** The longest that a request is held until its tokens are there; 0: it is refused instead. */
  readonly maxDelayMs: number;
}

export interface LeakyBucketLimit extends AnyLimit {
  readonly algorithm: 'leaky_bucket';
  /** Hits that pass at once before those after them have to wait for the leak, at least 1. */
  readonly burst: number;
  /** The longest that a request is held until its turn; 0: it is refused instead. */
  readonly maxDelayMs: number;
}

/** The numbers of one limit, told apart by the algorithm that reads them. */
export type Limit =
  | FixedWindowLimit
  | SlidingWindowLogLimit
  | SlidingWindowCounterLimit
  | SlidingWindowBucketsLimit
  | TokenBucketLimit
  | LeakyBucketLimit;

/** What an algorithm remembers of a counter between two steps: a list of integers, each below 2^53. */
export type State = readonly number[];

/** One run of an algorithm: the part that must be atomic. */
export interface Step {
  /** False: the limit is exceeded. An ordinary outcome, not an error. */
  readonly accepted: boolean;
  readonly state: State;
  /** Until `state` no longer matters and the counter may be forgotten; 0: it is as good as new already. */
  readonly ttlMs: number;
  /** What `describe` needs to know; absent: the state itself. */
  readonly report?: State;
}

/**
 * Whether a step counts its hits: `true` where they are accepted (or the algorithm counts refusals), `false` never, and `regardless` whatever
 * the limit says, for hits that have passed already. A counter takes at most its limit's capacity at once so, and a bucket goes at most
 * one whole bucket below empty.
 */
export type Charge = boolean | 'regardless';

/** What became of a hit. */
export interface Outcome {
  /** Whole hits that were wanted: 0 looked, below 0 gave back. */
  readonly hits: number;
  readonly accepted: boolean;
  /** False: the counter was only looked at, because another limit of the request refused. */
  readonly charged: boolean;
}

/** What a caller is told about one limit. Whole hits, whole milliseconds. */
export interface Decision {
  readonly code: 'OK' | 'OVER_LIMIT';
  /** What the counter stood at before these hits were spent. Of a give-back, and beyond `MAX_COUNT`, only a guess. */
  readonly hitsBefore: number;
  /** Hits still acceptable without a flag. 10 a second, 6 spent this second: 4. Never below 0. */
  readonly limitRemaining: number;
  /** Until the counter is as good as new. */
  readonly durationUntilResetMs: number;
  /** Until this same request could pass: 0 when it passed, `NEVER_MS` when it cannot. */
  readonly retryAfterMs: number;
  /** How long to hold the request before it passes; 0 where it passes now or not at all. */
  readonly delayMs: number;
  /** It passed, but on the part of the limit that is soft. */
  readonly soft: boolean;
  /** Refused from memory of an earlier refusal; the counter was not touched. */
  readonly fromCache?: true;
  /** Answered from a block that this process had debited before. */
  readonly fromLease?: true;
  /** The store could not count the hits: this is what the limit's own policy makes of it. */
  readonly degraded?: StoreFailurePolicy;
  /** The store's time of the charge, in milliseconds since the epoch; only where receipts were asked for. */
  readonly chargedAtMs?: number;
}

/**
 * What a request spends when one of its blocking limits refuses.
 *
 * each            every limit counts for itself, as envoyproxy/ratelimit does
 * all_or_nothing  nothing anywhere
 * spare_others    what the refusing limits count of their own refusals; the others are not charged. What
 *                 STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT means there
 */
export const spends = ['each', 'all_or_nothing', 'spare_others'] as const;
export type Spend = (typeof spends)[number];

/** A rate-limiting algorithm: its `step` exists twice, here for this process and in `script` for Redis; `describe` once. */
export interface Algorithm<L extends Limit = Limit> {
  /**
   * Counts `hits` on a counter. Pure: the store runs it atomically and keeps what it returns.
   *
   * @param state  what the previous step returned; undefined for a new counter
   * @param nowMs   the store's clock; it may run backwards
   * @param hits    whole; 0 looks and spends nothing, below 0 gives back
   * @param charge  false: says what would become of the hits, but leaves the counter as it is
   */
  step(limit: L, state: State | undefined, nowMs: number, hits: number, charge: Charge): Step;
  /**
   * Takes back hits that were charged at a known time, as far as the counter still remembers them: never more than if they had not been
   * charged at all. Its twin stands in `script`, with `_refund` after the algorithm's name.
   *
   * @param hits         whole, at least 0
   * @param chargedAtMs  the store's time of the charge
   */
  refund(limit: L, state: State | undefined, nowMs: number, hits: number, chargedAtMs: number): Step;
  /** The part of the limit that one of `by` processes may count by itself; it may be 0. */
  divide(limit: L, by: number): L;
  /** For how long a single hit is refused after this refusal; 0: unknown. */
  refusalHoldsMs(limit: L, refusal: Refusal): number;
  /** How long after a single hit could pass so many more could, at most; undefined: not before the counter is as good as new. */
  waitForMoreMs?(limit: L, hits: number): number;
  /** What the caller is told, from the report that either twin made of the state it left. */
  describe(limit: L, report: State, nowMs: number, outcome: Outcome): Decision;
  /** The Lua twin: a file beside the TypeScript one that defines a local function of the algorithm's name. */
  readonly script: URL;
  /** The limit's numbers, in the order that the script documents them. `nowMs` is this process's clock. */
  scriptArgs(limit: L, nowMs: number): readonly number[];
}

/** What is known of a refusal. */
export interface Refusal {
  readonly decision: Decision;
  /** Whole hits that were refused together. */
  readonly hits: number;
  /** Whether the refused hits were offered to the counter, which may have counted them. */
  readonly charged: boolean;
}

/** For algorithms that refuse a single hit until the promised time, and count no refusals. */
export const singleHitRefusalMs = (_: Limit, { decision, hits }: Refusal): number =>
  hits <= 1 && decision.retryAfterMs !== NEVER_MS ? decision.retryAfterMs : 0;

/** What part of a window's limit one of several processes may count: whole hits, rounded down. */
export function divideWindow<L extends Limit>(limit: L, by: number): L {
  return { ...limit, requestsPerUnit: Math.floor(limit.requestsPerUnit / by), soft: Math.floor(limit.soft / by) };
}

/** The longest that a counter of the limit remembers a hit. */
export function longestMemoryMs(limit: Limit): number {
  if (!('burst' in limit)) return 2 * limit.windowMs;
  return (
    Math.ceil((2 * capacityOf(limit) * limit.windowMs) / limit.requestsPerUnit) + limit.windowMs + limit.maxDelayMs
  );
}

/** Names, modes and failure policies decide nothing about a counter. */
const LABELS: ReadonlySet<string> = new Set([
  'name',
  'unit',
  'unitMultiplier',
  'onStoreFailure',
  'localShare',
  'consistency',
  'shadow',
  'quota',
]);

/** Whether two limits decide alike, so that what is known of one counter under the first holds under the second. */
export function isSameLimit(one: Limit, other: Limit): boolean {
  if (one === other) return true;
  const numbers = Object.entries(one).filter(([name]) => !LABELS.has(name));
  const others = new Map(Object.entries(other).filter(([name]) => !LABELS.has(name)));
  return numbers.length === others.size && numbers.every(([name, value]) => others.get(name) === value);
}

/** Hits that fit into an unspent counter, the soft ones included. */
export const capacityOf = (limit: Limit): number => softLimitOf(limit) + limit.soft;

/** Hits that fit into an unspent counter without a flag: what `remaining` counts down from. */
export const softLimitOf = (limit: Limit): number => ('burst' in limit ? limit.burst : limit.requestsPerUnit);

/** What a look wants to know: whether one hit would pass. */
export const wanted = (hits: number): number => (hits === 0 ? 1 : hits);
