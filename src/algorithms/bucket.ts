import { type AnyLimit, checkProduct, type LimitKey, type LimitSource, MAX_COUNT, unitMs } from './limit.ts';

/** The numbers of a bucket, as a token bucket or a leaky bucket. */
export interface Bucket extends AnyLimit {
  readonly burst: number;
  readonly maxDelayMs: number;
}

/** Hits that fit into an empty bucket, the soft ones included. */
export const bucketSize = ({ burst, soft }: Bucket): number => burst + soft;

/** How long a bucket with a debt of a whole bucket remembers a hit; at least a day, since reports may add a larger debt. */
export function bucketMemoryMs(limit: Bucket): number {
  const emptyMs = Math.ceil((2 * bucketSize(limit) * limit.windowMs) / limit.requestsPerUnit);
  return Math.max(emptyMs + limit.windowMs + limit.maxDelayMs, unitMs.DAY);
}

/** The same bucket, but no request waits for longer. */
export const capBucketDelay = <L extends Bucket>(limit: L, maxHoldMs: number): L =>
  limit.maxDelayMs > maxHoldMs ? { ...limit, maxDelayMs: maxHoldMs } : limit;

/**
 * Reports what would let a bucket's products be no exact integers.
 *
 * @param tickMs  what time advances by: a held request takes what comes until its tick
 */
export function checkBucket(limit: Bucket, source: LimitSource, tickMs = 1): void {
  const { algorithm, requestsPerUnit, windowMs, soft, burst, maxDelayMs } = limit;
  const aheadMs = Math.ceil(maxDelayMs / tickMs) * tickMs;
  const size = bucketSize(limit);
  if (requestsPerUnit < 1)
    source.wrong('requests_per_unit', `requests_per_unit must be at least 1 with ${algorithm}, got ${requestsPerUnit}`);
  if (burst < 1) source.wrong('burst', `burst must be at least 1, got ${burst}`);
  if (soft > 0 && maxDelayMs > 0)
    source.wrong('max_delay', 'max_delay and soft exclude one another: leave one of them out');
  const products: readonly (readonly [number, LimitKey])[] = [
    [requestsPerUnit * windowMs, 'requests_per_unit'],
    [(burst + 1) * windowMs, source.values.burst === undefined ? 'requests_per_unit' : 'burst'],
    [(size + 1) * windowMs, 'soft'],
    [(size + 1) * windowMs + aheadMs * requestsPerUnit, 'max_delay'],
  ];
  const tooLarge = products.find(([product]) => product > MAX_COUNT);
  if (tooLarge) checkProduct(...tooLarge, source);
}

/** What part of a bucket one of several processes may count: as many hits in a longer window are an exact part of the rate. */
export function divideBucket<L extends AnyLimit & { readonly burst: number }>(limit: L, by: number): L {
  const { windowMs, burst, soft } = limit;
  return { ...limit, windowMs: windowMs * by, burst: Math.floor(burst / by), soft: Math.floor(soft / by) };
}
