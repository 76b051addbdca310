/**
 * The units of the Rate Limit Service, in milliseconds. Months and years are 30 and 365 days, as envoyproxy/ratelimit
 * counts them.
 */
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

/** The numbers that every limit has, whatever its algorithm. */
export interface LimitNumbers {
  /** Distinguishes its counters from those of other limits on the same descriptor: `fixed_window|60000`. */
  readonly counter: string;
  /** Hits that pass in one window, 0 to 4,294,967,295. */
  readonly requestsPerUnit: number;
  /** Further hits that pass in a window, but flagged. 0: the limit is hard. */
  readonly soft: number;
  /** The window's length, at most `MAX_WINDOW_MS`; of a calendar window the usual one. */
  readonly windowMs: number;
}

/** The numbers of one limit; each algorithm has more. */
export interface AnyLimit extends LimitNumbers {
  readonly algorithm: string;
}

/** How callers are shown a limit. */
export interface LimitLabel {
  /** What the operator called it: the handle for `replaces`, too. Empty where it has no name. */
  readonly name: string;
  /** A window that no number of units describes has unit UNKNOWN. */
  readonly unit: Unit | 'UNKNOWN';
  /** Units in a window: 30 with SECOND is half a minute. */
  readonly unitMultiplier: number;
}

/** What a rule decides around a limit. */
export interface LimitPolicy {
  /** What becomes of hits that the store cannot count; absent: their request has no answer. */
  readonly onStoreFailure?: StoreFailurePolicy;
  /** How many processes share the limit while each counts by itself: whole, at least 1. Absent: 1. */
  readonly localShare?: number;
  /** Hits may be answered from a block that a process has debited before; absent: each is counted by itself. */
  readonly consistency?: 'leased';
  /** Refused hits are charged, too: they report what has been used already. Absent: as the algorithm does. */
  readonly charge?: 'always';
  /** Counts, but never refuses; absent: false. */
  readonly shadow?: true;
  /** Refuses a request only together with all its other quotas; absent: false. */
  readonly quota?: true;
  /** Counters begin anew where the limit's numbers change; absent: they are kept. */
  readonly onChange?: 'reset';
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

/** What a rule says of a limit in keys that only some algorithms have. */
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

/** Keys of a rule that an algorithm may find wrong. */
export type LimitKey = keyof AlgorithmValues | 'requests_per_unit' | 'soft';

/** A rule's limit, for the algorithm that it names. What is wrong is reported, and answered by undefined. */
export interface LimitSource {
  readonly values: AlgorithmValues;
  wrong(key: LimitKey, message: string): undefined;
  /** One of the choices; the first where the rule does not say. */
  choice<const C extends string>(key: LimitKey, choices: readonly [C, ...C[]]): C | undefined;
  /** The longest that a request may be held, in milliseconds; 0 where the rule does not say. */
  maxDelayMs(): number | undefined;
  /** The counter's entries leave out an id: the rule's path has `not_counted: hold`. */
  readonly hasId: boolean;
  /** The windows of the limit's unit in the rule's time zone. */
  calendar(): { readonly calendar: Calendar; readonly timeZone: string } | undefined;
  /** Those that begin with a date; undefined: the rule does not say so. */
  anchored(): AnchoredWindows | undefined;
}

/** Where windows begin that do not begin on multiples of their length since the epoch. */
export interface Anchored {
  /** As the rule says it: `2026-11-27T00:00`. */
  readonly anchor: string;
  /** Whose clock shows that. */
  readonly timezone: string;
  /** By so much windows that all have one length begin before those multiples. */
  readonly phaseMs: number;
}

export interface AnchoredWindows {
  readonly anchored: Anchored;
  /** As long as the calendar makes them, and what names them; absent: that is one length. */
  readonly byCalendar?: () => { readonly calendar: Calendar; readonly name: string };
}

/** The boundaries of calendar windows: midnights, Mondays, firsts of months in some time zone. */
export interface Calendar {
  /** A name of the IANA database. */
  readonly timeZone: string;
  /** Four boundaries in a row, the second at or before `nowMs`, the third after it. Milliseconds since the epoch. */
  around(nowMs: number): readonly [number, number, number, number];
}

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
 * Whether a step counts its hits: `true` where they are accepted (or the algorithm counts refusals), `false` never, and
 * `regardless` whatever the limit says, for hits that have passed already. Only `MAX_COUNT` bounds the debt of a
 * counter.
 */
export type Charge = boolean | 'regardless';

/** What became of a hit. */
export interface Outcome {
  /** Whole hits of the operation: 0 peeks, a negative number gives hits back. */
  readonly hits: number;
  readonly accepted: boolean;
  /**
   * The `charge` argument of the step. False: the counter was only read, because another limit of the request refused.
   */
  readonly charged: Charge;
}

/** Hits that the counter took, where refusals are not counted; below 0 it gave them back. */
export const takenBy = ({ hits, accepted, charged }: Outcome): number =>
  charged === 'regardless' || (charged && accepted) ? hits : 0;

/** What is in flight on a counter. */
export interface HoldsReport {
  /** Slots that are taken now. */
  readonly held: number;
  /** How long ago the first of them to expire was taken; 0: none is. */
  readonly oldestMs: number;
  /** Slots that were found expired, and are free again: nothing had released them. */
  readonly expired: number;
}

/** What a step of a reservation did, in the order of its report. */
export const reservationEvents = [
  'peeked',
  'refused', // for what is on hold
  'refused_alone', // with nothing on hold it would be, too
  'reserved',
  'committed',
  'late', // committed after its reservation had expired
  'unknown', // used, but not reserved here
  'repeated', // committed before: nothing was done
  'given_back',
  'full', // refused, as the counter knows as many requests as it can
] as const;
export type ReservationEvent = (typeof reservationEvents)[number];

/** Those of a commit. */
export const commitEvents: ReadonlySet<ReservationEvent> = new Set(['committed', 'late', 'unknown', 'repeated']);

/** What became of a reservation, and what is on hold beside it. Whole hits. */
export interface ReservationReport {
  readonly event: ReservationEvent;
  /** By this request, now or before. */
  readonly reserved: number;
  /** By this commit. */
  readonly charged: number;
  /** Used beyond what was reserved, whether that was charged or not. */
  readonly overrun: number;
  /** On hold after it, over all requests. */
  readonly held: number;
  /** Requests whose hits these are. */
  readonly open: number;
  /** How long ago the first of them to expire was made; 0: there is none. */
  readonly oldestMs: number;
}

/** What a site has of a limit that sites share, in the epoch of its counter. Whole hits. */
export interface SiteReport {
  /** When the epoch began, on the clock of the site's store, and until when it lasts. */
  readonly epochMs: number;
  readonly leftMs: number;
  /** The clock of the site's store. */
  readonly nowMs: number;
  /** Hits that were requested in half a second of late. */
  readonly demand: number;
  /** Hits that the site may still admit; below 0 it has admitted hits in advance. */
  readonly room: number;
  /** Hits that it has admitted; of a bucket those that have not been refilled, and those that it has lent. */
  readonly used: number;
  /** Lent to each site, and taken from each, in the order of the sites. */
  readonly given: readonly number[];
  readonly taken: readonly number[];
}

/** The decision about one limit, as reported to the caller. Whole hits, whole milliseconds. */
export interface Decision {
  readonly code: 'OK' | 'OVER_LIMIT';
  /** What the counter stood at before these hits were spent. Of a give-back, and beyond `MAX_COUNT`, only a guess. */
  readonly hitsBefore: number;
  /** Hits still acceptable without a flag. 10 a second, 6 spent this second: 4. Never below 0. */
  readonly limitRemaining: number;
  /** Until the whole limit is available; 0: it is. */
  readonly durationUntilResetMs: number;
  /** Until this same request could pass: 0 when it passed, `NEVER_MS` when it cannot. */
  readonly retryAfterMs: number;
  /** How long to hold the request before it passes; 0 where it passes now or not at all. */
  readonly delayMs: number;
  /** It passed, but on the part of the limit that is soft. */
  readonly soft: boolean;
  /** Of limits on what is in flight. */
  readonly holds?: HoldsReport;
  /** Of limits whose hits are reserved first. */
  readonly reservation?: ReservationReport;
  /** Of exchanges between sites. */
  readonly site?: SiteReport;
  /** Refused from memory of an earlier refusal; the counter was not touched. */
  readonly fromCache?: true;
  /** Answered from a block that this process had debited before. */
  readonly fromLease?: true;
  /** The store could not count the hits: this is what the limit's own policy makes of it. */
  readonly degraded?: StoreFailurePolicy;
  /** The store's time of the charge, in milliseconds since the epoch; only where receipts were asked for. */
  readonly chargedAtMs?: number;
}

/** Whether it is about hits whose request has been decided before. */
export const isCommit = ({ reservation }: Decision): boolean =>
  reservation !== undefined && commitEvents.has(reservation.event);

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

/**
 * A rate-limiting algorithm, with all that others need to know of it: its `step` exists twice, here for this process
 * and in `script` for Redis; `describe` once.
 */
export interface Algorithm<L extends AnyLimit = AnyLimit> {
  /** Keys of a rule that only some algorithms have, this one among them. */
  readonly keys: readonly (keyof AlgorithmValues)[];
  /** Reads these keys, and checks that every product of the algorithm stays an exact integer. */
  parse(numbers: LimitNumbers, source: LimitSource): L | undefined;
  /** The limit's own keys as a rule says them, but for what goes without saying. */
  write(limit: L): readonly string[];
  /** The same for programs, all of them. */
  list(limit: L): object;
  /** Hits that fit into an unspent counter without a flag: what `remaining` counts down from. */
  capacity(limit: L): number;
  /** The longest that a counter of the limit remembers a hit. */
  longestMemoryMs(limit: L): number;
  /**
   * Whether two limits of one counter decide alike, so that what is known of it under the first holds under the second.
   */
  isSame(one: L, other: L): boolean;
  /** The same limit, but no request is held for longer; absent: none is held. */
  capDelay?(limit: L, maxHoldMs: number): L;
  /** The same limit for the request that a number below 2^53 names; absent: what a limit counts has no names. */
  holdFor?(limit: L, holder: number): L;
  /**
   * The hits that a request takes at least.
   *
   * @param usualHits  what the requests of the counter have used of late, at most; undefined: not known
   */
  atLeast?(limit: L, usualHits: () => number | undefined): number;
  /** Whether that depends on what the requests of the counter have used. */
  learns?(limit: L): boolean;
  /**
   * Whether hits are counted whatever the other limits of the request say, and whatever it spends; absent: they never
   * are.
   */
  standsAlone?(limit: L, hits: number): boolean;
  /**
   * For how long the store knows a step of the limit that it has counted, in milliseconds: the same one again changes
   * nothing. 0, absent: each is counted.
   */
  repeatableForMs?(limit: L): number;
  /** How long a debited block stays valid, by when its counter resets; absent: nothing can be leased. */
  leaseMs?(untilResetMs: number): number;
  /**
   * Counts `hits` on a counter. Pure: the store runs it atomically and keeps what it returns.
   *
   * @param state  what the previous step returned; undefined for a new counter
   * @param nowMs   the store's clock; it may run backwards
   * @param hits    whole; 0 peeks, a negative number gives hits back
   * @param charge  false: says what would become of the hits, but leaves the counter as it is
   */
  step(limit: L, state: State | undefined, nowMs: number, hits: number, charge: Charge): Step;
  /**
   * Takes back hits that were charged at a known time, as far as the counter still remembers them: never more than if
   * they had not been charged at all. Its twin stands in `script`, with `_refund` after the algorithm's name.
   *
   * @param hits         whole, at least 0
   * @param chargedAtMs  the store's time of the charge
   */
  refund(limit: L, state: State | undefined, nowMs: number, hits: number, chargedAtMs: number): Step;
  /** Whether a counter can go into debt by any number of hits: `charge: always`. */
  readonly canOwe: boolean;
  /** The part of the limit that one of `by` processes may count by itself; it may be 0. */
  divide(limit: L, by: number): L;
  /** For how long a single hit is refused after this refusal; 0: unknown. */
  refusalHoldsMs(limit: L, refusal: Refusal): number;
  /**
   * How long after a single hit could pass so many more could, at most; undefined: not before the counter is as good as
   * new.
   */
  waitForMoreMs?(limit: L, hits: number): number;
  /** The decision for the caller, from the report of either twin. */
  describe(limit: L, report: State, nowMs: number, outcome: Outcome): Decision;
  /** Whether the TypeScript twin finds what the Lua twin does, however far apart their clocks are; absent: it does. */
  canReplay?(limit: L): boolean;
  /** Of what a state holds, 1 at first: another one has counters of its own. */
  readonly stateVersion: number;
  /** The first number of a state names its window, at whose end it expires, whatever is counted meanwhile. */
  readonly expiresWithWindow?: true;
  /** Whether reservations of all requests end together with a window, whose start is the first number of a state. */
  endsTogether?(limit: L): boolean;
  /** Its script calls those of the algorithms before it in the table. */
  readonly callsOthers?: true;
  /** No rule names it: another key of the rule asks for it. */
  readonly isUnnamed?: true;
  /** A state may be long: not every store holds it. */
  readonly hasLongState?: true;
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
export const singleHitRefusalMs = (_: AnyLimit, { decision, hits }: Refusal): number =>
  hits <= 1 && decision.retryAfterMs !== NEVER_MS ? decision.retryAfterMs : 0;

/** Whether all numbers are the same. */
export function sameNumbers(one: AnyLimit, other: AnyLimit): boolean {
  const others = new Map(Object.entries(other));
  const numbers = Object.entries(one);
  return numbers.length === others.size && numbers.every(([name, value]) => others.get(name) === value);
}

/** Reports a product that is no exact integer. */
export function checkProduct(product: number, key: LimitKey, { wrong }: Pick<LimitSource, 'wrong'>): void {
  if (product <= MAX_COUNT) return;
  wrong(
    key,
    `hits times milliseconds of the window must stay below 2^53 to be exact, got ${product}; take a smaller limit or window`,
  );
}

/** The hits that must fit for an operation to be accepted: a peek asks whether one hit would pass. */
export const hitsToFit = (hits: number): number => (hits === 0 ? 1 : hits);
