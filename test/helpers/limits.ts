import type { FixedWindowLimit } from '../../src/engine/algorithms/fixed-window.ts';
import type { RateLimit } from '../../src/engine/algorithms/index.ts';
import {
  type LimitLabel,
  type LimitPolicy,
  MAX_COUNT,
  MAX_WINDOW_MS,
  unitMs,
} from '../../src/engine/algorithms/limit.ts';
import type { AllocationLimit } from '../../src/engine/holds/allocation.ts';
import type { Claim } from '../../src/engine/holds/claim.ts';
import type { InFlightLimit } from '../../src/engine/holds/in-flight.ts';
import type { Limit } from '../../src/engine/holds/limits.ts';
import type { RuleLimit } from '../../src/engine/rules/match/tree.ts';
import { type CalendarUnit, createCalendar } from '../../src/engine/rules/time/calendar.ts';
import type { AdaptiveLimit } from '../../src/parts/adaptive/estimate.ts';
import type { PenaltyLimit } from '../../src/parts/penalty/penalty.ts';
import type { ReservationLimit } from '../../src/parts/reservations/reservation.ts';
import { createOwnLimits } from '../../src/parts/sites/lender.ts';
import type { SiteShareLimit } from '../../src/parts/sites/site-share.ts';
import fc from './property.ts';
import { ruleOf } from './rules.ts';

/** The limits of an algorithm. */
export type RateLimitBy<N extends RateLimit['algorithm']> = Extract<RateLimit, { readonly algorithm: N }>;

const MAX_LOG_HITS = 1_000;
const MAX_HELD_SLOTS = 1_000;

/** The largest number of hits in a rule or request. */
export const LARGEST = 4_294_967_295;

const MINUTE = unitMs.MINUTE;

/** The algorithms whose counters have a version. */
const versioned: Readonly<Partial<Record<Limit['algorithm'], string>>> = {
  fixed_window: 'fixed_window.2',
  token_bucket: 'token_bucket.2',
};

/** The properties of all limits, with the counter name that rules give them. */
const limitOf = <N extends Limit['algorithm']>(algorithm: N, requestsPerUnit: number, windowMs: number) => ({
  algorithm,
  counter: `${versioned[algorithm] ?? algorithm}|${windowMs}`,
  requestsPerUnit,
  soft: 0,
  windowMs,
});

/** A limit with its rule's policies. */
export type PolicedLimit = Limit & LimitPolicy;

/** The label of a limit without a name; by default its window in seconds. */
export const labelOf = ({ windowMs }: Limit, changes: Partial<LimitLabel> = {}): LimitLabel => ({
  name: '',
  unit: 'SECOND',
  unitMultiplier: windowMs / 1_000,
  ...changes,
});

/** A limit of a rule, without policies. */
export const ruleLimitOf = (limit: Limit, changes: Partial<LimitLabel> = {}): RuleLimit => ({
  limit,
  label: labelOf(limit, changes),
  policy: {},
});

/** The limit, label and policies of a rule's limit in one object. */
export const flat = ({ limit, label, policy }: RuleLimit) => ({ ...limit, ...label, ...policy });

/** A fixed window of any length; by default a minute, aligned with the epoch. */
export const fixedWindowOf = (
  requestsPerUnit: number,
  windowMs: number = MINUTE,
  more: Partial<FixedWindowLimit> = {},
): FixedWindowLimit => {
  const common = limitOf('fixed_window', requestsPerUnit, windowMs);
  const counter = more.alignment === 'first_hit' ? `${common.counter}@first_hit` : common.counter;
  return { ...common, counter, alignment: 'epoch', ...more };
};

/** A fixed window of the calendar in a time zone. */
export const calendarWindowOf = (
  requestsPerUnit: number,
  unit: CalendarUnit,
  timeZone: string,
  more: Partial<FixedWindowLimit> = {},
): FixedWindowLimit => {
  const alignment = createCalendar(unit, timeZone);
  const counter = `fixed_window.2|${unitMs[unit]}@${timeZone}`;
  return fixedWindowOf(requestsPerUnit, unitMs[unit], { alignment, counter, ...more });
};

export const slidingWindowLogOf = (
  requestsPerUnit: number,
  windowMs: number = MINUTE,
  more: Partial<RateLimitBy<'sliding_window_log'>> = {},
): RateLimitBy<'sliding_window_log'> => ({
  ...limitOf('sliding_window_log', requestsPerUnit, windowMs),
  countDenied: false,
  ...more,
});

export const slidingWindowCounterOf = (
  requestsPerUnit: number,
  windowMs: number = MINUTE,
  more: Partial<RateLimitBy<'sliding_window_counter'>> = {},
): RateLimitBy<'sliding_window_counter'> => ({
  ...limitOf('sliding_window_counter', requestsPerUnit, windowMs),
  rounding: 'down',
  ...more,
});

/** Ten buckets by default. */
export const slidingWindowBucketsOf = (
  requestsPerUnit: number,
  windowMs: number = MINUTE,
  { buckets = 10, ...more }: Partial<RateLimitBy<'sliding_window_buckets'>> = {},
): RateLimitBy<'sliding_window_buckets'> => {
  const common = limitOf('sliding_window_buckets', requestsPerUnit, windowMs);
  return { ...common, counter: `${common.counter}/${buckets}`, buckets, ...more };
};

/** By default a full bucket holds the refill of one window. */
export const tokenBucketOf = (
  requestsPerUnit: number,
  windowMs: number = MINUTE,
  more: Partial<RateLimitBy<'token_bucket'>> = {},
): RateLimitBy<'token_bucket'> => ({
  ...limitOf('token_bucket', requestsPerUnit, windowMs),
  burst: requestsPerUnit,
  refill: 'continuous',
  maxDelayMs: 0,
  ...more,
});

/** One hit at once by default. */
export const leakyBucketOf = (
  requestsPerUnit: number,
  windowMs: number = MINUTE,
  more: Partial<RateLimitBy<'leaky_bucket'>> = {},
): RateLimitBy<'leaky_bucket'> => ({
  ...limitOf('leaky_bucket', requestsPerUnit, windowMs),
  burst: 1,
  maxDelayMs: 0,
  ...more,
});

/** Without an id by default. */
export const inFlightOf = (
  slots: number,
  ttlMs: number = MINUTE,
  more: Partial<InFlightLimit> = {},
): InFlightLimit => ({ ...limitOf('in_flight', slots, ttlMs), counter: 'in_flight', ...more });

/** Hits until they are given back. */
export const allocationOf = (hits: number, more: Partial<AllocationLimit> = {}): AllocationLimit => ({
  ...limitOf('allocation', hits, MAX_WINDOW_MS),
  counter: 'allocation',
  ...more,
});

/** From 4 slots, for at most a minute each; changed once a second. */
export const adaptiveOf = (max: number, ttlMs: number = MINUTE, more: Partial<AdaptiveLimit> = {}): AdaptiveLimit => ({
  ...limitOf('adaptive', max, ttlMs),
  min: Math.min(4, max),
  target: 'gradient',
  adaptMs: 1_000,
  ...more,
});

/** Counted by another limit; by default for a minute, and all usage is charged. */
export const reservationOf = (inner: RateLimit, more: Partial<ReservationLimit> = {}): ReservationLimit => ({
  algorithm: 'reservation',
  counter: `${inner.counter}+reserve`,
  requestsPerUnit: inner.requestsPerUnit,
  soft: inner.soft,
  windowMs: inner.windowMs,
  inner,
  ttlMs: MINUTE,
  onOverrun: 'debt',
  onLapse: 'free',
  ...more,
});

/** Blocks of a minute, all equal. */
export const penaltyOf = (inner: RateLimit, more: Partial<PenaltyLimit> = {}): PenaltyLimit => ({
  algorithm: 'penalty',
  counter: `${inner.counter}+penalty`,
  requestsPerUnit: inner.requestsPerUnit,
  soft: inner.soft,
  windowMs: inner.windowMs,
  inner,
  blockMs: MINUTE,
  growth: 1,
  longestMs: MINUTE,
  forgivenMs: 0,
  isProlonged: false,
  ...more,
});

/** A site's share of a limit; by default the first of two sites, and a window of a minute. */
export const siteShareOf = (
  requestsPerUnit: number,
  windowMs: number = MINUTE,
  more: Partial<SiteShareLimit> = {},
): SiteShareLimit => {
  const limit = { of: 'fixed_window', burst: requestsPerUnit, sites: 2, site: 0, maxErrorPercent: 0, ...more } as const;
  const counter = `site_share|${limit.of}|${windowMs}/${limit.sites}.names`;
  return { ...limitOf('site_share', requestsPerUnit, windowMs), counter, ...limit };
};

/** A site's own limits: rules with only these limits. */
export const ownLimitsOf = (...limits: readonly SiteShareLimit[]): ReturnType<typeof createOwnLimits> => {
  const rules = [ruleOf({ limits: limits.map((limit) => ruleLimitOf(limit)) })];
  return createOwnLimits(() => ({ rules }));
};

/** One limit of each algorithm. Each admits `hits` at once, and restores none by itself within a minute. */
export const limitsOfEach = (hits: number, windowMs: number = MINUTE): readonly Limit[] => [
  fixedWindowOf(hits, windowMs),
  fixedWindowOf(hits, windowMs, { alignment: 'first_hit' }),
  slidingWindowLogOf(hits, windowMs),
  slidingWindowLogOf(hits, windowMs, { countDenied: true }),
  slidingWindowCounterOf(hits, windowMs),
  slidingWindowBucketsOf(hits, windowMs),
  tokenBucketOf(1, windowMs, { burst: hits }),
  tokenBucketOf(hits, windowMs, { refill: 'interval' }),
  leakyBucketOf(1, windowMs, { burst: hits }),
];

/** Windows of the API's units and others, from a second to a year. */
export const anyWindowMs: fc.Arbitrary<number> = fc.oneof(
  fc.constantFrom(...Object.values(unitMs)),
  fc.integer({ min: unitMs.SECOND, max: unitMs.YEAR }),
);

/** From 0 to the largest limit, often small. */
const anyRequestsPerUnit: fc.Arbitrary<number> = fc.oneof(
  fc.integer({ min: 0, max: 20 }),
  fc.integer({ min: 0, max: LARGEST }),
  fc.constant(LARGEST),
);

/** Any window that a rule can have: the API's units and others, from a millisecond to a century. */
const anyWindowAtAllMs = fc.oneof(
  { weight: 6, arbitrary: anyWindowMs },
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 100 }) },
  { weight: 1, arbitrary: fc.constantFrom(1, MAX_WINDOW_MS) },
);

const anySoft = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 10 }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: LARGEST }) },
);

/** The longest delay that a rule can have. */
const MAX_DELAY_MS = unitMs.HOUR;

const anyDelayMs = (windowMs: number): fc.Arbitrary<number> =>
  fc.oneof(
    { weight: 3, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: fc.integer({ min: 1, max: Math.min(3 * windowMs, MAX_DELAY_MS) }) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: MAX_DELAY_MS }) },
  );

const ZONES = ['UTC', 'Europe/Berlin', 'America/Sao_Paulo', 'Asia/Kolkata', 'Australia/Lord_Howe'] as const;

const anyFixedWindow: fc.Arbitrary<FixedWindowLimit> = fc
  .record({ requestsPerUnit: anyRequestsPerUnit, windowMs: anyWindowAtAllMs, soft: anySoft })
  .chain(({ requestsPerUnit, windowMs, soft }) =>
    fc.oneof(
      fc.constant(fixedWindowOf(requestsPerUnit, windowMs, { soft })),
      fc.constant(fixedWindowOf(requestsPerUnit, windowMs, { soft, alignment: 'first_hit' })),
      fc
        .record({
          unit: fc.constantFrom<CalendarUnit>('HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR'),
          timeZone: fc.constantFrom(...ZONES),
        })
        .map(({ unit, timeZone }) => calendarWindowOf(requestsPerUnit, unit, timeZone, { soft })),
    ),
  );

const anySlidingWindowLog: fc.Arbitrary<RateLimitBy<'sliding_window_log'>> = fc
  .record({
    requestsPerUnit: fc.oneof(
      { weight: 5, arbitrary: fc.integer({ min: 0, max: 20 }) },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: MAX_LOG_HITS }) },
    ),
    windowMs: anyWindowAtAllMs,
    soft: anySoft,
    countDenied: fc.boolean(),
  })
  .map(({ requestsPerUnit, windowMs, soft, countDenied }) =>
    slidingWindowLogOf(requestsPerUnit, windowMs, {
      countDenied,
      soft: Math.min(soft, MAX_LOG_HITS - requestsPerUnit),
    }),
  );

const anySlidingWindowCounter: fc.Arbitrary<RateLimitBy<'sliding_window_counter'>> = fc
  .record({
    requestsPerUnit: anyRequestsPerUnit,
    windowMs: anyWindowAtAllMs,
    soft: anySoft,
    rounding: fc.constantFrom<RateLimitBy<'sliding_window_counter'>['rounding']>('down', 'up'),
  })
  .map(({ requestsPerUnit, windowMs, soft, rounding }) => {
    const most = Math.floor(MAX_COUNT / windowMs);
    const hits = Math.min(requestsPerUnit, most);
    return slidingWindowCounterOf(hits, windowMs, { rounding, soft: Math.min(soft, most - hits) });
  });

const anySlidingWindowBuckets: fc.Arbitrary<RateLimitBy<'sliding_window_buckets'>> = fc
  .record({
    requestsPerUnit: anyRequestsPerUnit,
    buckets: fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 100 })),
    aboutMs: anyWindowAtAllMs,
    soft: anySoft,
  })
  .map(({ requestsPerUnit, buckets, aboutMs, soft }) =>
    slidingWindowBucketsOf(requestsPerUnit, Math.max(Math.floor(aboutMs / buckets), 1) * buckets, { buckets, soft }),
  );

/** The numbers of a bucket, reduced so that arithmetic stays exact. */
const anyBucketNumbers = anyWindowAtAllMs.chain((windowMs) =>
  fc
    .record({
      requestsPerUnit: anyRequestsPerUnit,
      burst: fc.oneof(fc.integer({ min: 1, max: 20 }), anyRequestsPerUnit),
      soft: anySoft,
      maxDelayMs: anyDelayMs(windowMs),
    })
    .map((numbers) => {
      const most = Math.floor(MAX_COUNT / windowMs);
      const requestsPerUnit = Math.max(Math.min(numbers.requestsPerUnit, most), 1);
      const burst = Math.max(Math.min(numbers.burst, most - 1), 1);
      const left = MAX_COUNT - (burst + 1) * windowMs;
      const maxDelayMs = Math.min(numbers.maxDelayMs, Math.floor(left / requestsPerUnit));
      const soft = maxDelayMs > 0 ? 0 : Math.min(numbers.soft, most - 1 - burst);
      return { requestsPerUnit, windowMs, burst, soft, maxDelayMs };
    }),
);

const anyTokenBucket: fc.Arbitrary<RateLimitBy<'token_bucket'>> = fc
  .record({
    numbers: anyBucketNumbers,
    refill: fc.constantFrom<RateLimitBy<'token_bucket'>['refill']>('continuous', 'interval'),
  })
  .map(({ numbers, refill }) => {
    const { requestsPerUnit, windowMs, burst, maxDelayMs } = numbers;
    const aheadMs = refill === 'interval' ? Math.ceil(maxDelayMs / windowMs) * windowMs : 0; // a delayed request takes tokens of a later refill
    const isExact = (burst + 1) * windowMs + aheadMs * requestsPerUnit <= MAX_COUNT;
    return tokenBucketOf(requestsPerUnit, windowMs, { ...numbers, refill, maxDelayMs: isExact ? maxDelayMs : 0 });
  });

const anyLeakyBucket: fc.Arbitrary<RateLimitBy<'leaky_bucket'>> = anyBucketNumbers.map((numbers) =>
  leakyBucketOf(numbers.requestsPerUnit, numbers.windowMs, numbers),
);

const anyInFlight: fc.Arbitrary<InFlightLimit> = fc
  .record({
    slots: fc.oneof(
      { weight: 5, arbitrary: fc.integer({ min: 0, max: 20 }) },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: MAX_HELD_SLOTS }) },
      { weight: 1, arbitrary: anyRequestsPerUnit },
    ),
    ttlMs: fc.integer({ min: 100, max: unitMs.DAY }),
    soft: anySoft,
  })
  .map(({ slots, ttlMs, soft }) => inFlightOf(slots, ttlMs, { soft }));

const anyAllocation: fc.Arbitrary<AllocationLimit> = fc
  .record({ hits: anyRequestsPerUnit, soft: anySoft })
  .map(({ hits, soft }) => allocationOf(hits, { soft }));

const anyAdaptive: fc.Arbitrary<AdaptiveLimit> = fc
  .record({
    max: fc.integer({ min: 1, max: MAX_HELD_SLOTS }),
    min: fc.integer({ min: 1, max: 20 }),
    ttlMs: fc.integer({ min: 100, max: unitMs.DAY }),
    adaptMs: fc.integer({ min: 100, max: MINUTE }),
    target: fc.constantFrom<AdaptiveLimit['target']>('gradient', 'aimd'),
  })
  .map(({ max, min, ttlMs, ...more }) => adaptiveOf(max, ttlMs, { min: Math.min(min, max), ...more }));

/** Rules do not delay requests for reservations. */
const anyReservation: fc.Arbitrary<ReservationLimit> = fc
  .record({
    inner: fc.oneof(
      anyFixedWindow,
      anySlidingWindowCounter,
      anySlidingWindowBuckets,
      anyTokenBucket.map((limit) => ({ ...limit, maxDelayMs: 0 })),
      anyLeakyBucket.map((limit) => ({ ...limit, maxDelayMs: 0 })),
    ),
    ttlMs: fc.oneof(fc.integer({ min: 100, max: 10_000 }), fc.integer({ min: 100, max: unitMs.DAY })),
    onOverrun: fc.constantFrom('debt', 'clip'),
    onLapse: fc.constantFrom('charge', 'free'),
  })
  .map(({ inner, ...more }) => reservationOf(inner, more));

/** Rules do not delay requests for penalties. */
const anyPenalty: fc.Arbitrary<PenaltyLimit> = fc
  .record({
    inner: fc.oneof(
      anyFixedWindow,
      anySlidingWindowLog,
      anySlidingWindowCounter,
      anySlidingWindowBuckets,
      anyTokenBucket.map((limit) => ({ ...limit, maxDelayMs: 0 })),
      anyLeakyBucket.map((limit) => ({ ...limit, maxDelayMs: 0 })),
    ),
    blockMs: fc.integer({ min: 1_000, max: 2 * MINUTE }),
    growth: fc.integer({ min: 1, max: 10 }),
    moreMs: fc.integer({ min: 1, max: 10 * MINUTE }),
    forgivenMs: fc.integer({ min: 1_000, max: 10 * MINUTE }),
    isProlonged: fc.boolean(),
  })
  .map(({ inner, blockMs, growth, moreMs, forgivenMs, isProlonged }) =>
    growth === 1
      ? penaltyOf(inner, { blockMs, longestMs: blockMs, isProlonged })
      : penaltyOf(inner, { blockMs, growth, longestMs: blockMs + moreMs, forgivenMs, isProlonged }),
  );

/** Counting, and both sides of a transfer, which tests of one counter would not cover. */
export const anyTransfer = (sites: number): fc.Arbitrary<Pick<Claim, 'transfer'>> => {
  const peer = fc.integer({ min: 0, max: sites - 1 });
  const amount = fc.oneof(fc.integer({ min: 0, max: 20 }), anyRequestsPerUnit);
  // times at which tests begin
  const epochMs = fc.constantFrom(1_700_000_000_000, 1_699_999_980_000, 1_700_000_040_000);
  const aboutMs = fc.integer({ min: 1_699_999_998_000, max: 1_700_000_002_000 });
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant({}) },
    {
      weight: 1,
      arbitrary: fc
        .record({ peer, epochMs, taken: amount, among: fc.integer({ min: 1, max: 4 }) })
        .map((lend) => ({ transfer: { kind: 'lend', ...lend } as const })),
    },
    {
      weight: 1,
      arbitrary: fc
        .record({ peer, epochMs, given: amount, sentMs: aboutMs, repliedMs: aboutMs })
        .map((take) => ({ transfer: { kind: 'take', ...take } as const })),
    },
  );
};

const anySiteShare: fc.Arbitrary<SiteShareLimit> = fc
  .record({
    of: fc.constantFrom('fixed_window', 'token_bucket'),
    sites: fc.integer({ min: 1, max: 8 }),
    numbers: anyBucketNumbers,
    place: fc.nat({ max: 7 }),
    percent: fc.constantFrom(0, 0, 1, 5, 50),
    isOneLost: fc.boolean(),
  })
  .map(({ of, sites, numbers: { requestsPerUnit, windowMs, burst }, place, percent: maxErrorPercent, isOneLost }) => {
    const most = Math.max(Math.floor(MAX_COUNT / (2 * windowMs * sites)) - 1, 1);
    const site = place % sites;
    const lost = isOneLost && sites > 1 ? { lost: [(site + 1) % sites] } : {};
    const numbers = { of, sites, site, ...lost, burst: Math.min(burst, most), maxErrorPercent };
    return siteShareOf(requestsPerUnit, windowMs, numbers);
  });

/** By algorithm, any limit that a rule file can state, with extremes often. */
export const anyLimitOf = {
  fixed_window: fc.oneof(
    { weight: 8, arbitrary: anyFixedWindow },
    {
      weight: 1,
      arbitrary: fc.constantFrom(fixedWindowOf(LARGEST, unitMs.SECOND), fixedWindowOf(1, unitMs.YEAR)),
    },
  ),
  sliding_window_log: fc.oneof(
    { weight: 8, arbitrary: anySlidingWindowLog },
    {
      weight: 1,
      arbitrary: fc.constantFrom(slidingWindowLogOf(MAX_LOG_HITS, unitMs.SECOND), slidingWindowLogOf(1, unitMs.YEAR)),
    },
  ),
  sliding_window_counter: fc.oneof(
    { weight: 8, arbitrary: anySlidingWindowCounter },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        slidingWindowCounterOf(LARGEST, unitMs.SECOND),
        slidingWindowCounterOf(1, unitMs.YEAR, { rounding: 'up' }),
      ),
    },
  ),
  sliding_window_buckets: fc.oneof(
    { weight: 8, arbitrary: anySlidingWindowBuckets },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        slidingWindowBucketsOf(LARGEST, unitMs.SECOND, { buckets: 100 }),
        slidingWindowBucketsOf(1, unitMs.YEAR),
      ),
    },
  ),
  token_bucket: fc.oneof(
    { weight: 8, arbitrary: anyTokenBucket },
    {
      weight: 1,
      arbitrary: fc.constantFrom(tokenBucketOf(LARGEST, unitMs.SECOND), tokenBucketOf(1, unitMs.YEAR)),
    },
  ),
  leaky_bucket: fc.oneof(
    { weight: 8, arbitrary: anyLeakyBucket },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        leakyBucketOf(LARGEST, unitMs.SECOND, { burst: LARGEST }),
        leakyBucketOf(1, unitMs.YEAR),
      ),
    },
  ),
  in_flight: anyInFlight,
  reservation: anyReservation,
  site_share: anySiteShare,
  adaptive: anyAdaptive,
  allocation: anyAllocation,
  penalty: anyPenalty,
} as const satisfies {
  // shared limits have several counters: see test/parts/fair-shares
  readonly [N in Exclude<Limit['algorithm'], 'fair_share' | 'shared_slots'>]: fc.Arbitrary<
    Extract<Limit, { algorithm: N }>
  >;
};

/** Any limit of any algorithm. */
export const anyLimit: fc.Arbitrary<Limit> = fc.oneof(...Object.values(anyLimitOf));

/** What operations on the limit may state besides their hits, without a holder. */
export function anyClaimOn(limit: Limit): fc.Arbitrary<Claim> {
  if (limit.algorithm === 'site_share') return anyTransfer(limit.sites);
  return limit.algorithm === 'reservation' ? fc.record({ commits: fc.boolean() }) : fc.constant({});
}

/** The limit with windows that begin this many seconds after the epoch. */
function anchoredAt(limit: Limit, seconds: number): Limit {
  const { windowMs, counter } = limit;
  const phaseMs = (windowMs - ((seconds * 1_000) % windowMs)) % windowMs;
  const anchor = new Date(seconds * 1_000).toISOString().slice(0, 19);
  return {
    ...limit,
    counter: `${counter}${phaseMs === 0 ? '' : `@${phaseMs}`}`,
    ...{ anchor, timezone: 'UTC', phaseMs },
  };
}

/** Any limit with windows of a fixed length that begin at a date. */
export const anyAnchoredLimit: fc.Arbitrary<Limit> = fc
  .record({
    limit: fc.oneof(
      anyFixedWindow.filter(({ alignment }) => alignment === 'epoch'),
      anySlidingWindowCounter,
      anySlidingWindowBuckets,
      anyTokenBucket.filter(({ refill }) => refill === 'interval'),
    ),
    seconds: fc.nat({ max: 1_000_000_000 }),
  })
  .filter(({ limit }) => limit.windowMs <= 10 * unitMs.YEAR)
  .map(({ limit, seconds }) => anchoredAt(limit, seconds));
