import {
  type Algorithm,
  type Charge,
  capacityOf,
  NEVER_MS,
  type State,
  type Step,
  singleHitRefusalMs,
  type TokenBucketLimit,
  wanted,
} from './limit.ts';

/**
 * Token bucket: starts full, is refilled evenly or in one go at each boundary of the clock, spends one token a hit. Twin of
 * token-bucket.lua. State: level (token-ms), filled at (ms since the epoch).
 *
 * The level is kept in token-milliseconds, tokens times the window's length, so that refilling multiplies and never
 * divides: exact integers in both twins. With a `maxDelayMs` it may be below 0: what is missing is a queue of requests that
 * were promised their tokens in the order in which they came.
 *
 * @param nowMs   may run backwards (clock skew); that refills nothing and forgets nothing
 * @param hits    tokens wanted; 0 looks: refused when a single one would be; below 0 gives back, never beyond full
 * @param charge  false: says what would become of the hits, but leaves the counter as it is
 * @see https://en.wikipedia.org/wiki/Token_bucket
 */
function step(limit: TokenBucketLimit, state: State | undefined, nowMs: number, hits: number, charge: Charge): Step {
  const size = capacityOf(limit);
  const capacity = size * limit.windowMs;
  const [level, filledAtMs] = refill(limit, capacity, state, nowMs);
  const asked = wanted(hits);
  const accepted =
    asked < 0 ||
    (asked <= size && waitMs(limit, level - asked * limit.windowMs, filledAtMs, nowMs) <= limit.maxDelayMs);
  const missing = Math.ceil((capacity - level) / limit.windowMs); // no more than that can be given back
  const cost = Math.max(hits, -missing) * limit.windowMs;
  let left = accepted && charge ? Math.min(level - cost, capacity) : level;
  if (charge === 'regardless')
    left = Math.max(level - Math.min(hits, size) * limit.windowMs, Math.min(level, -capacity));
  return { accepted, state: [left, filledAtMs], ttlMs: waitMs(limit, left - capacity, filledAtMs, nowMs) };
}

function refill(
  limit: TokenBucketLimit,
  capacity: number,
  state: State | undefined,
  nowMs: number,
): readonly [number, number] {
  const tickMs = tickOf(limit);
  const tickedAtMs = nowMs - (nowMs % tickMs);
  const [known = capacity, filledAtMs = tickedAtMs] = state ?? [];
  const level = Math.min(known, capacity);
  const added = Math.max(tickedAtMs - filledAtMs, 0) * limit.requestsPerUnit; // inexact only where far above what is missing
  return [added >= capacity - level ? capacity : level + added, Math.max(tickedAtMs, filledAtMs)];
}

/** Until a level that is below 0 has come up to it. */
function waitMs(limit: TokenBucketLimit, level: number, filledAtMs: number, nowMs: number): number {
  if (level >= 0) return 0;
  const tickMs = tickOf(limit);
  return filledAtMs + Math.ceil(-level / (limit.requestsPerUnit * tickMs)) * tickMs - nowMs;
}

/** What time advances by: a millisecond, or a window where the refill comes in one go. */
const tickOf = ({ refill: how, windowMs }: TokenBucketLimit): number => (how === 'interval' ? windowMs : 1);

/** The token bucket's row in the table of algorithms. */
export const tokenBucket: Algorithm<TokenBucketLimit> = {
  step,
  describe(limit, [level = 0, filledAtMs = 0], nowMs, { hits, accepted, charged }) {
    const { windowMs, soft } = limit;
    const size = capacityOf(limit);
    const spent = charged && accepted ? hits : 0;
    const asked = wanted(hits);
    const unmetMs =
      asked <= size ? waitMs(limit, level - asked * windowMs, filledAtMs, nowMs) - limit.maxDelayMs : NEVER_MS;
    return {
      code: accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore: Math.max(size - Math.floor(level / windowMs) - spent, 0),
      limitRemaining: Math.max(Math.floor(level / windowMs) - soft, 0),
      durationUntilResetMs: waitMs(limit, level - size * windowMs, filledAtMs, nowMs),
      retryAfterMs: accepted ? 0 : unmetMs,
      delayMs: spent > 0 ? waitMs(limit, level, filledAtMs, nowMs) : 0,
      soft: soft > 0 && spent > 0 && level < soft * windowMs,
    };
  },
  refund(limit, state, nowMs, hits, chargedAtMs) {
    const capacity = capacityOf(limit) * limit.windowMs;
    const [level, filledAtMs] = refill(limit, capacity, state, nowMs);
    const tickMs = tickOf(limit);
    const refilledMs = Math.max(filledAtMs - (chargedAtMs - (chargedAtMs % tickMs)), 0);
    const back = Math.max(Math.min(hits, capacityOf(limit)) * limit.windowMs - refilledMs * limit.requestsPerUnit, 0);
    const left = Math.min(level + back, capacity);
    return { accepted: true, state: [left, filledAtMs], ttlMs: waitMs(limit, left - capacity, filledAtMs, nowMs) };
  },
  divide: (limit, by) => ({
    ...limit,
    windowMs: limit.windowMs * by, // as many tokens in a longer window: an exact part of the rate
    burst: Math.floor(limit.burst / by),
    soft: Math.floor(limit.soft / by),
  }),
  refusalHoldsMs: singleHitRefusalMs,
  waitForMoreMs(limit, hits) {
    const tickMs = tickOf(limit);
    return Math.ceil((hits * limit.windowMs) / (limit.requestsPerUnit * tickMs)) * tickMs;
  },
  script: new URL('./token-bucket.lua', import.meta.url),
  scriptArgs: (limit) => [limit.requestsPerUnit, limit.windowMs, capacityOf(limit), tickOf(limit), limit.maxDelayMs],
};
