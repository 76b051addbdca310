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

export interface LeakyBucketLimit extends AnyLimit {
  readonly algorithm: 'leaky_bucket';
  /** Hits that pass immediately before later ones have to wait for the leak, at least 1. */
  readonly burst: number;
  /** Maximum time that a request is held until its turn; 0 to refuse it instead. */
  readonly maxDelayMs: number;
}

/**
 * Leaky bucket: hits fill it, it leaks at the limit's rate, and hits that would overflow are refused or, with a
 * `maxDelayMs`, wait their turn. Twin of leaky-bucket.lua. State: backlog (hit-ms), drained at (ms since the epoch).
 *
 * The backlog is kept in hit-milliseconds, hits times the window's length, so that leaking multiplies and never
 * divides: exact integers in both twins.
 *
 * @param nowMs   may run backwards (clock skew); that drains nothing and forgets nothing
 * @param hits    0 peeks: refused if a single hit would be; a negative number gives hits back, never below empty
 * @param charge  false to leave the counter unchanged and only return the outcome
 * @see https://en.wikipedia.org/wiki/Leaky_bucket
 */
function step(limit: LeakyBucketLimit, state: State | undefined, nowMs: number, hits: number, charge: Charge): Step {
  const size = bucketSize(limit);
  const [backlog, drainedAtMs] = drain(limit, state, nowMs);
  const required = hitsToFit(hits);
  const overflow = backlog + (required - size) * limit.windowMs;
  const accepted =
    required < 0 || (required <= size && waitMs(limit, overflow, drainedAtMs, nowMs) <= limit.maxDelayMs);
  const isTaken = charge === 'regardless' || (charge && accepted);
  const left = isTaken ? Math.min(Math.max(backlog + hits * limit.windowMs, 0), MAX_COUNT) : backlog;
  return { accepted, state: [left, drainedAtMs], ttlMs: waitMs(limit, left, drainedAtMs, nowMs) };
}

function drain(limit: LeakyBucketLimit, state: State | undefined, nowMs: number): readonly [number, number] {
  const [backlog = 0, drainedAtMs = nowMs] = state ?? [];
  const leaked = Math.max(nowMs - drainedAtMs, 0) * limit.requestsPerUnit; // inexact only if far above the backlog
  return [Math.max(backlog - leaked, 0), Math.max(nowMs, drainedAtMs)];
}

/** The time until the excess has leaked out. */
function waitMs(limit: LeakyBucketLimit, excess: number, drainedAtMs: number, nowMs: number): number {
  return excess <= 0 ? 0 : drainedAtMs + Math.ceil(excess / limit.requestsPerUnit) - nowMs;
}

/** The leaky bucket's row in the table of algorithms. */
export const leakyBucket: Algorithm<LeakyBucketLimit> = {
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
  capacity: ({ burst }) => burst,
  longestMemoryMs: bucketMemoryMs,
  step,
  describe: describeBucket(waitMs),
  refund(limit, state, nowMs, hits, chargedAtMs) {
    const [backlog, drainedAtMs] = drain(limit, state, nowMs);
    const leaked = Math.max(drainedAtMs - chargedAtMs, 0) * limit.requestsPerUnit;
    const back = Math.max(hits * limit.windowMs - leaked, 0);
    const left = Math.max(backlog - back, 0);
    return { accepted: true, state: [left, drainedAtMs], ttlMs: waitMs(limit, left, drainedAtMs, nowMs) };
  },
  divide: divideBucket,
  refusalHoldsMs: singleHitRefusalMs,
  waitForMoreMs: (limit, hits) => Math.ceil((hits * limit.windowMs) / limit.requestsPerUnit),
  state: { length: 2 },
  script: new URL('./leaky-bucket.lua', import.meta.url),
  scriptArgs: (limit) => [limit.requestsPerUnit, limit.windowMs, bucketSize(limit), limit.maxDelayMs],
};
