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

export interface FixedWindowLimit {
  readonly algorithm: 'fixed_window';
  /** What the operator called it: shown to callers, and the handle for `replaces`. Empty where it has no name. */
  readonly name: string;
  /** Hits that pass in one window, 0 to 4,294,967,295. */
  readonly requestsPerUnit: number;
  readonly unit: Unit;
  /** Units in a window: 30 with SECOND is half a minute. */
  readonly unitMultiplier: number;
  /** `unit` × `unitMultiplier`, at most `MAX_WINDOW_MS`. */
  readonly windowMs: number;
}

/** The numbers of one limit, told apart by the algorithm that reads them. */
export type Limit = FixedWindowLimit;

/** What an algorithm remembers of a counter between two steps: a short list of integers, each below 2^53. */
export type State = readonly number[];

/** One run of an algorithm: the part that must be atomic. */
export interface Step {
  /** False: the limit is exceeded. An ordinary outcome, not an error. */
  readonly accepted: boolean;
  readonly state: State;
  /** Until `state` no longer matters and the counter may be forgotten. */
  readonly ttlMs: number;
}

/** What a caller is told about one limit. Whole hits, whole milliseconds. */
export interface Decision {
  readonly code: 'OK' | 'OVER_LIMIT';
  /** What the counter stood at before these hits were spent. Of a give-back, and beyond `MAX_COUNT`, only a guess. */
  readonly hitsBefore: number;
  /** Hits still acceptable. 10 a second, 6 spent this second: 4. Never below 0. */
  readonly limitRemaining: number;
  /** Until the counter is as good as new. */
  readonly durationUntilResetMs: number;
  /** Until this same request could pass: 0 when it passed, `NEVER_MS` when it cannot. */
  readonly retryAfterMs: number;
}

/** A rate-limiting algorithm: its `step` exists twice, here for this process and in `script` for Redis; `describe` once. */
export interface Algorithm<L extends Limit = Limit> {
  /**
   * Counts `hits` on a counter. Pure: the store runs it atomically and keeps what it returns.
   *
   * @param state  what the previous step returned; undefined for a new counter
   * @param nowMs  the store's clock; it may run backwards
   * @param hits   whole; 0 looks and spends nothing, below 0 gives back
   */
  step(limit: L, state: State | undefined, nowMs: number, hits: number): Step;
  /** What the caller is told, from the state that either twin left. */
  describe(limit: L, state: State, nowMs: number, hits: number, accepted: boolean): Decision;
  /** The Lua twin: a file beside the TypeScript one that defines a local function of the algorithm's name. */
  readonly script: URL;
  /** The limit's numbers, in the order that the script documents. */
  scriptArgs(limit: L): readonly number[];
}
