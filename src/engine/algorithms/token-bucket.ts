import { bucket, checkBucket, refills } from './bucket.ts';
import type { Algorithm, AnyLimit } from './limit.ts';
import { listAnchor, type MayBeAnchored, readPhase, writeAnchor } from './window.ts';

/** Maximum time that tokens are leased, since no window ends. Tokens refilled meanwhile may pass in addition. */
export const LONGEST_LEASE_MS = 1_000;

export interface TokenBucketLimit extends AnyLimit, MayBeAnchored {
  readonly algorithm: 'token_bucket';
  /** The capacity of a full bucket, at least 1. */
  readonly burst: number;
  readonly refill: (typeof refills)[number];
  /** Maximum time that a request is held until its tokens are available; 0 to refuse it instead. */
  readonly maxDelayMs: number;
}

/**
 * Token bucket: starts full, is refilled continuously or at each window boundary, spends one token per hit.
 *
 * @see https://en.wikipedia.org/wiki/Token_bucket
 */
export const tokenBucket: Algorithm<TokenBucketLimit> = {
  ...bucket,
  keys: ['burst', 'refill', 'max_delay', 'alignment', 'share'],
  parse(numbers, source) {
    const refill = source.choice('refill', refills);
    const maxDelayMs = source.maxDelayMs();
    const phase = readPhase(numbers, source);
    if (!refill || maxDelayMs === undefined || !phase) return undefined;
    if (refill === 'continuous' && phase.anchor !== undefined)
      return source.report('alignment', 'alignment goes with refill: interval: a continuous refill has no windows');
    const burst = source.values.burst ?? numbers.requestsPerUnit;
    const limit = { ...numbers, ...phase, algorithm: 'token_bucket', refill, maxDelayMs, burst } as const;
    checkBucket(limit, source);
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
  movable: ({ refill, burst }) => (refill === 'continuous' ? burst : undefined),
  leaseMs: () => LONGEST_LEASE_MS,
  state: { version: 2, length: 2 },
};
