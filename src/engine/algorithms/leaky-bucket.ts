import { bucket, checkBucket } from './bucket.ts';
import type { Algorithm, AnyLimit } from './limit.ts';

export interface LeakyBucketLimit extends AnyLimit {
  readonly algorithm: 'leaky_bucket';
  /** Hits that pass immediately before later ones have to wait for the leak, at least 1. */
  readonly burst: number;
  /** Maximum time that a request is held until its turn; 0 to refuse it instead. */
  readonly maxDelayMs: number;
}

/**
 * Leaky bucket: hits fill it, it leaks at the limit's rate, and hits that would overflow are refused or, with a
 * `maxDelayMs`, wait their turn. It counts like a token bucket, whose spent tokens are the backlog here.
 *
 * @see https://en.wikipedia.org/wiki/Leaky_bucket
 */
export const leakyBucket: Algorithm<LeakyBucketLimit> = {
  ...bucket,
  keys: ['burst', 'max_delay'],
  parse(numbers, source) {
    const maxDelayMs = source.maxDelayMs();
    if (maxDelayMs === undefined) return undefined;
    const limit = { ...numbers, algorithm: 'leaky_bucket', maxDelayMs, burst: source.values.burst ?? 1 } as const;
    checkBucket(limit, source);
    return limit;
  },
  write: ({ burst, maxDelayMs }) => [`burst: ${burst}`, ...(maxDelayMs > 0 ? [`max_delay: ${maxDelayMs}ms`] : [])],
  list: ({ burst, maxDelayMs }) => ({ burst, max_delay_ms: maxDelayMs }),
  state: { length: 2 },
};
