import type { Compiled } from '../lua/compiled-step.ts';

/** The units of the Rate Limit Service, in ms. Months and years are 30 and 365 days, as in envoyproxy/ratelimit. */
export const unitMs = {
  SECOND: 1_000,
  MINUTE: 60_000,
  HOUR: 3_600_000,
  DAY: 86_400_000,
  WEEK: 604_800_000,
  MONTH: 2_592_000_000,
  YEAR: 31_536_000_000,
} as const;

/** A duration in rules: `30s`, `1h30m`. */
export const DURATION = '^([0-9]+(ms|s|m|h|d|w))+$';

const durationUnitMs: Readonly<Record<string, number>> = { ms: 1, s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7, w: 6.048e8 };

/** Milliseconds of a duration; undefined if it is invalid. */
export function durationMs(written: string): number | undefined {
  if (!new RegExp(DURATION).test(written)) return undefined;
  const parts = [...written.matchAll(/(\d+)([a-z]+)/g)];
  return parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (durationUnitMs[unit] ?? 0), 0);
}

/** @see https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/ratelimit/v3/rls.proto */
export type Unit = keyof typeof unitMs;

/** Maximum length of a window, a century, in which milliseconds are exact integers. */
export const MAX_WINDOW_MS = 100 * unitMs.YEAR;

/** Maximum count, the largest integer that a double, and so Lua, holds exactly. */
export const MAX_COUNT: number = 9_007_199_254_740_991;

/** Maximum limit: a count that stops at `MAX_COUNT` exceeds it. */
export const MAX_LIMIT = MAX_COUNT - 1;

/** `retryAfterMs` of a request that can never pass, such as 5 hits on a limit of 3. */
export const NEVER_MS = Number.POSITIVE_INFINITY;

/** The numbers that limits of all algorithms have. */
export interface LimitNumbers {
  /** Distinguishes the limit's counters from those of other limits on the same descriptor: `fixed_window.2|60000`. */
  readonly counter: string;
  /** Hits that pass in one window, 0 to `MAX_LIMIT`. */
  readonly requestsPerUnit: number;
  /** Further hits that pass in a window, but flagged; 0 for a hard limit. */
  readonly soft: number;
  /** The window's length, at most `MAX_WINDOW_MS`; for calendar windows the usual length. */
  readonly windowMs: number;
  /** Of a budget: its hits are billionths of this currency. */
  readonly currency?: string | undefined;
  /** Of a limit of the node above, whose block applies here: the number of entries that name its counter. Default: all. */
  readonly above?: number;
}

/** The numbers of one limit; each algorithm has more. */
export interface AnyLimit extends LimitNumbers {
  readonly algorithm: string;
}

/** How a limit is shown to callers. */
export interface LimitLabel {
  /** The operator's name for it, which `replaces` refers to as well; empty if there is none. */
  readonly name: string;
  /** UNKNOWN if the window is not a whole number of units. */
  readonly unit: Unit | 'UNKNOWN';
  /** Units in a window: 30 with SECOND is half a minute. */
  readonly unitMultiplier: number;
  /** Its hits are those of each replica, times their number. */
  readonly replicas?: { readonly each: number; readonly count: number };
}

/** The policy of a rule for a limit. */
export interface LimitPolicy {
  /** Treatment of hits that the store cannot count. Default: their request has no answer. */
  readonly onStoreFailure?: StoreFailurePolicy;
  /** Treatment of hits that an overloaded process cannot count in the store. Default: it counts them itself. */
  readonly onOverload?: 'error';
  /** Number of processes that share the limit but count separately, at least 1. Default: as many as use the store. */
  readonly localShare?: number;
  /** Whether hits may be answered from a block that a process debited before. Default: each is counted in the store. */
  readonly consistency?: 'leased';
  /** Whether refused hits are charged, too, since they report past use. Default: the algorithm decides. */
  readonly charge?: 'always';
  /** The limit is that of another rule, whose block applies here: hits are not counted. Default: false. */
  readonly watches?: true;
  /** Counts, but never refuses. Default: false. */
  readonly shadow?: true;
  /** Refuses a request only together with all its other quotas. Default: false. */
  readonly quota?: true;
  /** What happens to counters if the limit's numbers change. Default: they are kept. */
  readonly onChange?: 'reset';
  /** Percentages of the limit, in order, whose use operators want to know of. Default: none. */
  readonly notify?: readonly number[];
}

/**
 * Treatment of hits that the store cannot count in time.
 *
 * allow  they pass
 * deny   they are refused
 * local  they are counted in this process, at the limit divided by `localShare`
 */
export const storeFailurePolicies = ['allow', 'deny', 'local'] as const;
export type StoreFailurePolicy = (typeof storeFailurePolicies)[number];

/** The values of a limit's keys that only some algorithms have. */
export interface AlgorithmValues {
  readonly alignment?: string;
  readonly timezone?: string;
  readonly count_denied?: boolean;
  readonly rounding?: string;
  readonly buckets?: number;
  readonly burst?: number;
  readonly refill?: string;
  readonly max_delay?: string;
  readonly ttl?: string;
}

/** Keys of a rule that an algorithm may reject. */
export type LimitKey = keyof AlgorithmValues | 'requests_per_unit' | 'soft';

/** A rule's limit, as its algorithm reads it. Errors are reported; the methods return undefined then. */
export interface LimitSource {
  readonly values: AlgorithmValues;
  report(key: LimitKey, message: string): undefined;
  /** One of the choices; the first if the key is absent. */
  choice<const C extends string>(key: LimitKey, choices: readonly [C, ...C[]]): C | undefined;
  /** Maximum time that a request may be held, in milliseconds; 0 if the key is absent. */
  maxDelayMs(): number | undefined;
  /** The counter's entries leave out an id: the rule's path has `not_counted: hold`. */
  readonly hasId: boolean;
  /** The windows of the limit's unit in the rule's time zone. */
  calendar(): { readonly calendar: Calendar; readonly timeZone: string } | undefined;
  /** Windows that begin on a date, or undefined if the rule has no anchor. */
  anchored(): AnchoredWindows | undefined;
}

/** Where windows begin if not on multiples of their length since the epoch. */
export interface Anchored {
  /** As written in the rule: `2026-11-27T00:00`. */
  readonly anchor: string;
  /** The time zone of `anchor`. */
  readonly timezone: string;
  /** The time by which windows of constant length begin before those multiples. */
  readonly phaseMs: number;
}

export interface AnchoredWindows {
  readonly anchored: Anchored;
  /** Windows with lengths from the calendar, and their name in counters; absent if their length is constant. */
  readonly byCalendar?: () => { readonly calendar: Calendar; readonly name: string };
}

/** The boundaries of calendar windows: midnights, Mondays, first days of months in a time zone. */
export interface Calendar {
  /** A name of the IANA database. */
  readonly timeZone: string;
  /** Four consecutive boundaries, the second at or before `nowMs`, the third after it. Milliseconds since the epoch. */
  around(nowMs: number): readonly [number, number, number, number];
}

/** The state of a counter between two steps of an algorithm: a list of integers, each below 2^53. */
export type State = readonly number[];

/** One run of an algorithm: the part that must be atomic. */
export interface Step {
  /** False if the limit is exceeded, which is an ordinary outcome, not an error. */
  readonly accepted: boolean;
  readonly state: State;
  /** Time until `state` no longer matters and the counter may be forgotten; 0 if it is equivalent to a new one. */
  readonly ttlMs: number;
  /** Input of `describe`. Default: the state itself. */
  readonly report?: State;
}

/**
 * Whether a step counts its hits: `true` if they are accepted (or the algorithm counts refusals), `false` never, and
 * `regardless` even beyond the limit, for hits that have passed already. Only `MAX_COUNT` bounds the debt of a counter.
 */
export type Charge = boolean | 'regardless';

/** The outcome of an operation. */
export interface Outcome {
  /** Whole hits of the operation: 0 peeks, a negative number gives hits back. */
  readonly hits: number;
  readonly accepted: boolean;
  /**
   * The `charge` argument of the step; false if the counter was only read because another limit of the request refused.
   */
  readonly charged: Charge;
}

/** Hits that the counter took, if it does not count refusals; negative for hits given back. */
export const takenBy = ({ hits, accepted, charged }: Outcome): number =>
  charged === 'regardless' || (charged && accepted) ? hits : 0;

/** The decision about one limit, as reported to the caller. Whole hits, whole milliseconds. */
export interface Decision {
  readonly code: 'OK' | 'OVER_LIMIT';
  /** The count before these hits were spent. Only a guess for hits given back, and beyond `MAX_COUNT`. */
  readonly hitsBefore: number;
  /** Hits still acceptable without a flag. 10 per second, 6 spent this second: 4. Never below 0. */
  readonly limitRemaining: number;
  /** Time until the whole limit is available, 0 if it is. In answers of an engine: until a request can pass. */
  readonly durationUntilResetMs: number;
  /** In answers of an engine: the time until the whole limit is available, if it is later than the reset. */
  readonly untilUnspentMs?: number | undefined;
  /** The time until this same request could pass: 0 if it passed, `NEVER_MS` if it never can. */
  readonly retryAfterMs: number;
  /** Time until the same request could pass once more, if it passed; undefined if that is now, or unknown. */
  readonly repeatAfterMs?: number | undefined;
  /** Time to hold the request before it passes; 0 if it passes now or not at all. */
  readonly delayMs: number;
  /** It passed, but used the limit's soft part. */
  readonly soft: boolean;
}

/**
 * The hits that a request spends if one of its blocking limits refuses.
 *
 * each            every limit counts independently, as in envoyproxy/ratelimit
 * all_or_nothing  none at all
 * spare_others    the refusing limits count their own refusals; the others are not charged. Corresponds to
 *                 STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT there
 */
export const spends = ['each', 'all_or_nothing', 'spare_others'] as const;
export type Spend = (typeof spends)[number];

/** The places of numbers in a report, from 0, whose sum is the hits that a counter holds, or lacks, in a unit. */
export interface HeldAt {
  readonly first: number;
  readonly last: number;
  readonly unit: number;
  /** What the counter holds beyond this was refused, and is no usage. Default: nothing was. */
  readonly most?: number;
}

/** How the states of a limit's counters are stored. */
export interface StateFormat<L extends AnyLimit> {
  /** Version of the format, each of which has its own counters. Default: the first. */
  readonly version?: number;
  /** Number of integers in each state; absent if it varies. */
  readonly length?: number;
  /** Maximum number of integers in a state, to which the cost of a step is proportional. Absent: it is constant. */
  longest?(limit: L): number;
  /** A state has an entry for each hit or holder: its length, and so the debt of a counter, is bounded. */
  readonly keepsEntries?: true;
  /** A state is of several nodes, which stores keep one by one: those of a shared limit and its children. */
  readonly hasNodes?: true;
}

/** What a counter contains, in the terms of its algorithm. */
export interface Account {
  /** The terms of the sum: `7 × 0.35`, `3`. */
  readonly terms: readonly string[];
  readonly used: number;
  /** Where the capacity comes from. */
  readonly note?: string | undefined;
  /** Room beyond the capacity for requests that may be delayed. */
  readonly mayOwe?: number;
}

/** How operators see the state of a counter: see `parts/lab/answers/explain.ts`. */
export type Drawing =
  | { readonly kind: 'level' }
  | { readonly kind: 'parts'; readonly parts: readonly number[] }
  | { readonly kind: 'ticks'; readonly windowMs: number; readonly ticks: readonly (readonly [number, number])[] }
  | { readonly kind: 'slots'; readonly ttlMs: number }
  | { readonly kind: 'window'; readonly windowMs: number };

/**
 * How a limit counts: what is asked of every kind. Redis runs its `step` and `refund` as `script`.
 */
export interface Row<L extends AnyLimit = AnyLimit> {
  /** The limit's own keys as in a rule, without defaults. */
  write(limit: L): readonly string[];
  /** The limit's own keys as JSON, including defaults. */
  list(limit: L): object;
  /** Hits that fit into an unused counter without a flag: the value that `remaining` counts down from. */
  capacity(limit: L): number;
  /** Maximum time that a counter of the limit keeps a hit. */
  longestMemoryMs(limit: L): number;
  /** Maximum time from when one hit could pass until this many more could. Undefined: until it is like a new one. */
  waitForMoreMs?(limit: L, hits: number): number | undefined;
  /** The same if no hits are charged beyond the limit. Default: no difference. */
  refillMs?(limit: L): number;
  /**
   * Counts `hits` on a counter. A pure function: the store runs it atomically and stores the returned state.
   *
   * @param state   returned by the previous step; undefined for a new counter
   * @param nowMs   the store's clock; it may run backwards
   * @param hits    an integer; 0 peeks, a negative number gives hits back
   * @param charge  false to leave the counter unchanged and only return the outcome
   */
  step(limit: L, state: State | undefined, nowMs: number, hits: number, charge: Charge): Step;
  /**
   * Takes back hits that were charged at a known time, as far as the counter still has them: never more than if they
   * had not been charged at all. In `script` it has the suffix `_refund`.
   *
   * @param hits         an integer, at least 0
   * @param chargedAtMs  the store's time of the charge
   */
  refund(limit: L, state: State | undefined, nowMs: number, hits: number, chargedAtMs: number): Step;
  /** The decision for the caller, from the report of a step. */
  describe(limit: L, report: State, nowMs: number, outcome: Outcome): Decision;
  /**
   * Where the windows of a counter begin, if each of its states is of one window, whose start is its first number, and
   * at whose end it expires regardless of later hits. Such an algorithm counts refused hits, so a peek needs no room.
   */
  windows?(limit: L): 'epoch' | 'first_hit' | 'calendar';
  /** The start of the window that ends at a time; present with `windows`. Its twin has the suffix `_start_before`. */
  startBefore?(limit: L, endMs: number): number;
  /** Where a report has the hits that the counter holds. Absent for limits whose hits are not usage. */
  heldAt?(limit: L): HeldAt;
  /** The state of a counter for operators. Default: drawn as a window. */
  draw?(limit: L, state: State | undefined, nowMs: number): Drawing;
  readonly state: StateFormat<L>;
  /** `step` and `refund` for Redis. */
  readonly script: Compiled;
  /** The numbers of the limit, as the script documents them. `nowMs` is this process's clock. */
  scriptArgs(limit: L, nowMs: number): readonly number[];
}

/** The most hits of a key in a fixed window, in the estimate of a sliding one, and in any windows. */
export interface Arrivals {
  readonly busiest: number;
  readonly busiestSliding: number;
  mostWithin(windows: number): number;
}

/** A rate-limiting algorithm, with what only limits on rates answer. */
export interface Algorithm<L extends AnyLimit = AnyLimit> extends Row<L> {
  /** The keys of a rule that this algorithm has, and others may not have. */
  readonly keys: readonly (keyof AlgorithmValues | 'share')[];
  /** Reads these keys, and checks that every product of the algorithm is an exact integer. */
  parse(numbers: LimitNumbers, source: LimitSource): L | undefined;
  heldAt(limit: L): HeldAt;
  /** The part of the limit that one of `by` processes may count separately; it may be 0. */
  divide(limit: L, by: number): L;
  /** Time that a debited block is valid, given the time until its counter resets; absent if nothing can be leased. */
  leaseMs?(untilResetMs: number): number;
  /** Time that a single hit is refused after this refusal; 0 if unknown. */
  refusalHoldsMs(limit: L, refusal: Refusal): number;
  /** The arithmetic of a counter. Default: the hits used, as reported. */
  account?(limit: L, state: State | undefined, nowMs: number): Account;
  /** Minimum limit that refuses none of a key's hits, at most; absent for buckets, which have a burst, too. */
  demand?(arrivals: Arrivals): number;
  /** The burst of a token bucket with which a proxy can apply the limit, or why it cannot. */
  bucketBurst(limit: L): number | string;
  /** The hits that sites can divide, and move among each other; undefined if they cannot. */
  movable?(limit: L): number | undefined;
}

/** Hits that must fit for a peek to be accepted. */
export const peekedHits = ({ windows }: Pick<Algorithm, 'windows'>): number => (windows ? 0 : 1);

/** The details of a refusal. */
interface Refusal {
  readonly decision: Decision;
  /** The number of hits that were refused together. */
  readonly hits: number;
  /** Whether the refused hits were passed to the counter, which may have counted them. */
  readonly charged: boolean;
}

/** For algorithms that refuse a single hit until the promised time, and do not count refusals. */
export const singleHitRefusalMs = (_: AnyLimit, { decision, hits }: Refusal): number =>
  hits <= 1 && decision.retryAfterMs !== NEVER_MS ? decision.retryAfterMs : 0;

/** Reports a product that is not an exact integer. */
export function checkProduct(product: number, key: LimitKey, { report }: Pick<LimitSource, 'report'>): void {
  if (product <= MAX_COUNT) return;
  report(
    key,
    `hits times milliseconds of the window must stay below 2^53 to be exact, got ${product}; take a smaller limit or window`,
  );
}

/** A decision's `repeatAfterMs`. @param waitMs  until the hits fit beside those counted now; 0 or less if they do */
export const repeatWait = ({ accepted, hits }: Outcome, waitMs: number): number | undefined =>
  accepted && hits > 0 && waitMs > 0 ? waitMs : undefined;

/** Hits that must fit for an operation to be accepted; a peek tests for one hit. */
export const hitsToFit = (hits: number): number => (hits === 0 ? 1 : hits);
