import { bucketMemoryMs, bucketSize, checkBucket, describeBucket, divideBucket } from './bucket.ts';
import {
  type Algorithm,
  type AnyLimit,
  type Charge,
  hitsToFit,
  MAX_COUNT,
  type State,
  type Step,
  singleHitRefusalMs,
} from './limit.ts';
import { listAnchor, type MayBeAnchored, readPhase, windowStart, writeAnchor } from './window.ts';

/** How rules refill a bucket. */
export const refills = ['continuous', 'interval'] as const;

/**
 * Maximum time that tokens are leased, since a bucket has no window that ends. Tokens refilled meanwhile may pass in
 * addition.
 */
export const LONGEST_LEASE_MS = 1_000;

export interface TokenBucketLimit extends AnyLimit, MayBeAnchored {
  readonly algorithm: 'token_bucket';
  /** The capacity of a full bucket, at least 1. */
  readonly burst: number;
  /** Refilled continuously, or by `requestsPerUnit` tokens at each window boundary. */
  readonly refill: (typeof refills)[number];
  /** Maximum time that a request is held until its tokens are available; 0 to refuse it instead. */
  readonly maxDelayMs: number;
}

/**
 * Token bucket: starts full, is refilled continuously or at each window boundary, spends one token per hit. Twin of
 * token-bucket.lua. State: spent (token-ms), refilled at (ms since the epoch).
 *
 * The state has the amount spent that has not been refilled, so that a bucket of another size has the same debt. It is
 * in token-milliseconds, tokens times the window's length, so that refilling multiplies and never divides: exact
 * integers in both twins. With a `maxDelayMs` more may be spent than the bucket holds: a queue of requests that were
 * promised tokens in their order of arrival.
 *
 * @param nowMs  may run backwards (clock skew); that refills nothing and forgets nothing
 * @param hits    tokens to take; 0 peeks: refused if a single hit would be; a negative number gives hits back, never
 *                beyond full
 * @param charge  false to leave the counter unchanged and only return the outcome
 * @see https://en.wikipedia.org/wiki/Token_bucket
 */
function step(limit: TokenBucketLimit, state: State | undefined, nowMs: number, hits: number, charge: Charge): Step {
  const { windowMs } = limit;
  const size = bucketSize(limit);
  const [spent, refilledAtMs] = refill(limit, state, nowMs);
  const required = hitsToFit(hits);
  const missing = spent + (required - size) * windowMs;
  const accepted =
    required < 0 || (required <= size && waitMs(limit, missing, refilledAtMs, nowMs) <= limit.maxDelayMs);
  const isTaken = charge === 'regardless' || (charge && accepted);
  const left = isTaken ? Math.min(Math.max(spent + hits * windowMs, 0), MAX_COUNT) : spent;
  return { accepted, state: [left, refilledAtMs], ttlMs: waitMs(limit, left, refilledAtMs, nowMs) };
}

function refill(limit: TokenBucketLimit, state: State | undefined, nowMs: number): readonly [number, number] {
  const tickedAtMs = windowStart(nowMs, refillTickMs(limit), limit.phaseMs);
  const [spent = 0, refilledAtMs = tickedAtMs] = state ?? [];
  // inexact only if far above the amount spent
  const refilled = Math.max(tickedAtMs - refilledAtMs, 0) * limit.requestsPerUnit;
  return [Math.max(spent - refilled, 0), Math.max(tickedAtMs, refilledAtMs)];
}

/**
 * The time until the amount has been refilled. Another limit of the counter may have refilled it between two
 * boundaries.
 */
function waitMs(limit: TokenBucketLimit, tokenMs: number, refilledAtMs: number, nowMs: number): number {
  if (tokenMs <= 0) return 0;
  const { requestsPerUnit, phaseMs = 0 } = limit;
  const tickMs = refillTickMs(limit);
  return Math.ceil((refilledAtMs + phaseMs + Math.ceil(tokenMs / requestsPerUnit)) / tickMs) * tickMs - phaseMs - nowMs;
}

/** The unit in which time advances: a millisecond, or a window if the refill is by interval. */
const refillTickMs = ({ refill: how, windowMs }: TokenBucketLimit): number => (how === 'interval' ? windowMs : 1);

/** The token bucket's row in the table of algorithms. */
export const tokenBucket: Algorithm<TokenBucketLimit> = {
  keys: ['burst', 'refill', 'max_delay', 'alignment'],
  parse(numbers, source) {
    const refill = source.choice('refill', refills);
    const maxDelayMs = source.maxDelayMs();
    const phase = readPhase(numbers, source);
    if (!refill || maxDelayMs === undefined || !phase) return undefined;
    if (refill === 'continuous' && phase.anchor !== undefined)
      return source.report('alignment', 'alignment goes with refill: interval: a continuous refill has no windows');
    const burst = source.values.burst ?? numbers.requestsPerUnit;
    const limit = { ...numbers, ...phase, algorithm: 'token_bucket', refill, maxDelayMs, burst } as const;
    checkBucket(limit, source, refillTickMs(limit));
    return limit;
  },
  write: (limit) => [
    `burst: ${limit.burst}`,
    ...(limit.refill === 'interval' ? ['refill: interval'] : []),
    ...writeAnchor(limit),
    ...(limit.maxDelayMs > 0 ? [`max_delay: ${limit.maxDelayMs}ms`] : []),
  ],
  list: (limit) => {
    const { burst, refill, maxDelayMs } = limit;
    return { burst, refill, ...listAnchor(limit), max_delay_ms: maxDelayMs };
  },
  capacity: ({ burst }) => burst,
  longestMemoryMs: bucketMemoryMs,
  leaseMs: () => LONGEST_LEASE_MS,
  step,
  describe: describeBucket(waitMs),
  refund(limit, state, nowMs, hits, chargedAtMs) {
    const [spent, refilledAtMs] = refill(limit, state, nowMs);
    const chargedMs = windowStart(chargedAtMs, refillTickMs(limit), limit.phaseMs);
    const refilledMs = Math.max(refilledAtMs - chargedMs, 0);
    const back = Math.max(hits * limit.windowMs - refilledMs * limit.requestsPerUnit, 0);
    const left = Math.max(spent - back, 0);
    return { accepted: true, state: [left, refilledAtMs], ttlMs: waitMs(limit, left, refilledAtMs, nowMs) };
  },
  divide: divideBucket,
  refusalHoldsMs: singleHitRefusalMs,
  waitForMoreMs(limit, hits) {
    const tickMs = refillTickMs(limit);
    return Math.ceil((hits * limit.windowMs) / (limit.requestsPerUnit * tickMs)) * tickMs;
  },
  state: { version: 2, length: 2 },
  script: new URL('./token-bucket.lua', import.meta.url),
  scriptArgs(limit) {
    const { requestsPerUnit, windowMs, maxDelayMs, phaseMs = 0 } = limit;
    const numbers = [requestsPerUnit, windowMs, bucketSize(limit), refillTickMs(limit), maxDelayMs];
    return phaseMs === 0 ? numbers : [...numbers, phaseMs];
  },
};
