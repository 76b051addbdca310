import {
  type Algorithm,
  type AnyLimit,
  checkProduct,
  hitsToFit,
  type LimitKey,
  type LimitSource,
  MAX_COUNT,
  NEVER_MS,
  repeatWait,
  takenBy,
  unitMs,
} from './limit.ts';

/** The numbers of a bucket, either a token bucket or a leaky bucket. */
interface Bucket extends AnyLimit {
  readonly burst: number;
  readonly maxDelayMs: number;
}

/** Hits that fit into an empty bucket, including the soft ones. */
export const bucketSize = ({ burst, soft }: Bucket): number => burst + soft;

/** Maximum time that a bucket keeps hits; at least a day, since reports may add more than a debt of a whole bucket. */
export const bucketMemoryMs = (limit: Bucket): number => Math.max(bucketRefillMs(limit), unitMs.DAY);

/** How long a bucket with a debt of a whole bucket keeps hits. */
export function bucketRefillMs(limit: Bucket): number {
  const emptyMs = Math.ceil((2 * bucketSize(limit) * limit.windowMs) / limit.requestsPerUnit);
  return emptyMs + limit.windowMs + limit.maxDelayMs;
}

/**
 * Reports numbers whose products would not be exact integers.
 *
 * @param tickMs  the unit in which time advances: a held request uses what is added until its tick
 */
export function checkBucket(limit: Bucket, source: LimitSource, tickMs = 1): void {
  const { algorithm, requestsPerUnit, windowMs, soft, burst, maxDelayMs } = limit;
  const aheadMs = Math.ceil(maxDelayMs / tickMs) * tickMs;
  const size = bucketSize(limit);
  if (requestsPerUnit < 1)
    source.report(
      'requests_per_unit',
      `requests_per_unit must be at least 1 with ${algorithm}, got ${requestsPerUnit}`,
    );
  if (burst < 1) source.report('burst', `burst must be at least 1, got ${burst}`);
  if (soft > 0 && maxDelayMs > 0)
    source.report('max_delay', 'max_delay and soft are mutually exclusive: remove one of them');
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
export function divideBucket<L extends AnyLimit & { readonly burst: number }>(limit: L, by: number): L {
  const { windowMs, burst, soft } = limit;
  return { ...limit, windowMs: windowMs * by, burst: Math.floor(burst / by), soft: Math.floor(soft / by) };
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
