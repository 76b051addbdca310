import { compiled } from '../lua/compiled.ts';
import {
  type Account,
  type Algorithm,
  type AnyLimit,
  type Charge,
  checkProduct,
  type Drawing,
  hitsToFit,
  type LimitKey,
  type LimitSource,
  MAX_COUNT,
  NEVER_MS,
  repeatWait,
  type State,
  type Step,
  singleHitRefusalMs,
  takenBy,
  unitMs,
} from './limit.ts';
import { showCount } from './money.ts';
import { stepped } from './stepped.ts';
import { type MayBeAnchored, windowStart } from './window.ts';

/** How rules refill a bucket. */
export const refills = ['continuous', 'interval'] as const;

/** The numbers of a bucket, either a token bucket or a leaky bucket. */
interface Bucket extends AnyLimit, MayBeAnchored {
  /** Hits that pass at once before later ones have to wait, at least 1. */
  readonly burst: number;
  /** Maximum time that a request is held until its turn; 0 to refuse it instead. */
  readonly maxDelayMs: number;
  /** Refilled continuously, or by `requestsPerUnit` tokens at each window boundary. Default: continuously. */
  readonly refill?: (typeof refills)[number];
}

/** Hits that fit into an empty bucket, including the soft ones. */
const bucketSize = ({ burst, soft }: Bucket): number => burst + soft;

/** How long a bucket with a debt of a whole bucket keeps hits. */
function bucketRefillMs(limit: Bucket): number {
  const emptyMs = Math.ceil((2 * bucketSize(limit) * limit.windowMs) / limit.requestsPerUnit);
  return emptyMs + limit.windowMs + limit.maxDelayMs;
}

/** The unit in which time advances, which is a window if the refill is by interval, and otherwise a millisecond. */
const refillTickMs = ({ refill: how, windowMs }: Bucket): number => (how === 'interval' ? windowMs : 1);

/** Reports numbers whose products would not be exact integers. */
export function checkBucket(limit: Bucket, source: LimitSource): void {
  const { algorithm, requestsPerUnit, windowMs, soft, burst, maxDelayMs } = limit;
  const tickMs = refillTickMs(limit);
  const aheadMs = Math.ceil(maxDelayMs / tickMs) * tickMs; // a held request uses what is added until its tick
  const size = bucketSize(limit);
  if (requestsPerUnit < 1)
    source.report(
      'requests_per_unit',
      `requests_per_unit must be at least 1 with ${algorithm}, got ${requestsPerUnit}`,
    );
  if (burst < 1) source.report('burst', `burst must be at least 1, got ${burst}`);
  if (soft > 0 && maxDelayMs > 0) source.report('max_delay', 'max_delay cannot be used with soft: remove one of them');
  const products: readonly (readonly [number, LimitKey])[] = [
    [requestsPerUnit * windowMs, 'requests_per_unit'],
    [(burst + 1) * windowMs, source.values.burst === undefined ? 'requests_per_unit' : 'burst'],
    [(size + 1) * windowMs, 'soft'],
    [(size + 1) * windowMs + aheadMs * requestsPerUnit, 'max_delay'],
  ];
  const tooLarge = products.find(([product]) => product > MAX_COUNT);
  if (tooLarge) checkProduct(...tooLarge, source);
}

/**
 * A process's part of a bucket, with the same number of hits in a longer window, which is an exact part of the rate.
 */
function divideBucket<L extends AnyLimit & { readonly burst: number }>(limit: L, by: number): L {
  const { windowMs, burst, soft } = limit;
  return { ...limit, windowMs: windowMs * by, burst: Math.floor(burst / by), soft: Math.floor(soft / by) };
}

interface BucketNumbers {
  readonly requestsPerUnit: number;
  readonly windowMs: number;
  /** Hits that fit into an empty bucket. */
  readonly size: number;
  /** The unit in which time advances. */
  readonly tickMs: number;
  readonly maxDelayMs: number;
  readonly phaseMs: number;
}

const numbers = (limit: Bucket): BucketNumbers => {
  const { requestsPerUnit, windowMs, maxDelayMs, phaseMs = 0 } = limit;
  return { requestsPerUnit, windowMs, size: bucketSize(limit), tickMs: refillTickMs(limit), maxDelayMs, phaseMs };
};

/**
 * Takes hits from a bucket that is refilled continuously or at each window boundary.
 * State: spent (hit-ms), refilled at (ms since the epoch).
 *
 * The state has the amount spent that has not been refilled, so that a bucket of another size has the same debt. It is
 * in hit-milliseconds, hits times the window's length, so that refilling multiplies and never divides: exact integers.
 * With a `maxDelayMs` more may be spent than the bucket holds, by requests that were promised their turn in order of
 * arrival.
 *
 * @param nowMs   may run backwards (clock skew); that refills nothing and forgets nothing
 * @param hits    0 peeks: refused if a single hit would be; a negative number gives hits back, never beyond full
 * @param charge  false to leave the counter unchanged and only return the outcome
 */
export function step(
  limit: BucketNumbers,
  state: State | undefined,
  nowMs: number,
  hits: number,
  charge: Charge,
): Step {
  const next = refill(limit, state, nowMs);
  const spent = next[0] ?? 0;
  const refilledAtMs = next[1] ?? 0;
  const required = hitsToFit(hits);
  const missing = spent + (required - limit.size) * limit.windowMs;
  const accepted =
    required < 0 || (required <= limit.size && waitMs(limit, missing, refilledAtMs, nowMs) <= limit.maxDelayMs);
  const isTaken = charge === 'regardless' || (charge && accepted);
  const left = isTaken ? Math.min(Math.max(spent + hits * limit.windowMs, 0), MAX_COUNT) : spent;
  next[0] = left;
  return { accepted, state: next, ttlMs: waitMs(limit, left, refilledAtMs, nowMs) };
}

/** Hits that have been refilled since do not come back: the bucket may have been full in between. */
export function refund(
  limit: BucketNumbers,
  state: State | undefined,
  nowMs: number,
  hits: number,
  chargedAtMs: number,
): Step {
  const next = refill(limit, state, nowMs);
  const refilledAtMs = next[1] ?? 0;
  const refilledMs = Math.max(refilledAtMs - windowStart(chargedAtMs, limit.tickMs, limit.phaseMs), 0);
  const back = Math.max(hits * limit.windowMs - refilledMs * limit.requestsPerUnit, 0);
  const left = Math.max((next[0] ?? 0) - back, 0);
  next[0] = left;
  return { accepted: true, state: next, ttlMs: waitMs(limit, left, refilledAtMs, nowMs) };
}

function refill(limit: BucketNumbers, state: State | undefined, nowMs: number): number[] {
  const tickedAtMs = windowStart(nowMs, limit.tickMs, limit.phaseMs);
  if (!state) return [0, tickedAtMs];
  const refilledAtMs = state[1] ?? 0;
  // inexact only if far above the amount spent
  const refilled = Math.max(tickedAtMs - refilledAtMs, 0) * limit.requestsPerUnit;
  return [Math.max((state[0] ?? 0) - refilled, 0), Math.max(tickedAtMs, refilledAtMs)];
}

/** Time until the amount is refilled. Another limit of the counter may have refilled it between two boundaries. */
function waitMs(limit: BucketNumbers, spentMs: number, refilledAtMs: number, nowMs: number): number {
  if (spentMs <= 0) return 0;
  const backAtMs = refilledAtMs + limit.phaseMs + Math.ceil(spentMs / limit.requestsPerUnit);
  return Math.ceil(backAtMs / limit.tickMs) * limit.tickMs - limit.phaseMs - nowMs;
}

/** The time from `nowMs` until the given hit-ms have come back, in a bucket whose state is from `sinceMs`. */
type BucketWait<L extends Bucket> = (limit: L, hitMs: number, sinceMs: number, nowMs: number) => number;

/** Describes a bucket whose state is the amount spent (hit-ms) and the time of that amount (ms since the epoch). */
export const describeBucket =
  <L extends Bucket>(waitMs: BucketWait<L>): Algorithm<L>['describe'] =>
  (limit, [spentMs = 0, sinceMs = 0], nowMs, outcome) => {
    const { windowMs, burst, soft } = limit;
    const size = bucketSize(limit);
    const taken = takenBy(outcome);
    const required = hitsToFit(outcome.hits);
    const excess = spentMs - size * windowMs;
    const unmetMs =
      required <= size ? waitMs(limit, excess + required * windowMs, sinceMs, nowMs) - limit.maxDelayMs : NEVER_MS;
    const spent = Math.ceil(spentMs / windowMs);
    return {
      code: outcome.accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore: Math.max(spent - taken, 0),
      limitRemaining: Math.max(burst - spent, 0),
      durationUntilResetMs: waitMs(limit, spentMs, sinceMs, nowMs),
      retryAfterMs: outcome.accepted ? 0 : unmetMs,
      repeatAfterMs: repeatWait(outcome, unmetMs),
      delayMs: outcome.accepted && taken > 0 ? waitMs(limit, excess, sinceMs, nowMs) : 0,
      soft: soft > 0 && outcome.accepted && taken > 0 && spentMs > burst * windowMs,
    };
  };

/** What the rows of a token bucket and a leaky bucket have in common. */
export const bucket = {
  capacity: ({ burst }: Bucket) => burst,
  /** At least a day, since reports may add more than a debt of a whole bucket. */
  longestMemoryMs: (limit: Bucket) => Math.max(bucketRefillMs(limit), unitMs.DAY),
  refillMs: bucketRefillMs,
  heldAt: ({ windowMs }: Bucket) => ({ first: 0, last: 0, unit: windowMs }),
  ...stepped<Bucket, BucketNumbers>({ compiled: compiled.bucket, numbers, step, refund }),
  describe: describeBucket<Bucket>((limit, ...times) => waitMs(numbers(limit), ...times)),
  divide: divideBucket,
  refusalHoldsMs: singleHitRefusalMs,
  waitForMoreMs(limit: Bucket, hits: number) {
    const tickMs = refillTickMs(limit);
    return Math.ceil((hits * limit.windowMs) / (limit.requestsPerUnit * tickMs)) * tickMs;
  },
  account(limit: Bucket, state: State | undefined, nowMs: number): Account {
    const { requestsPerUnit, windowMs, maxDelayMs } = limit;
    const used = (refill(numbers(limit), state, nowMs)[0] ?? 0) / windowMs;
    return { terms: [showCount(limit, used)], used, mayOwe: (maxDelayMs * requestsPerUnit) / windowMs };
  },
  draw: (): Drawing => ({ kind: 'level' }),
  bucketBurst: ({ maxDelayMs, burst }: Bucket): number | string =>
    maxDelayMs > 0 ? 'max_delay holds requests, which a proxy cannot do' : burst,
};
