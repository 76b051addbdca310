import { fixedWindow } from './fixed-window.ts';
import { leakyBucket } from './leaky-bucket.ts';
import type { Algorithm } from './limit.ts';
import { slidingWindowBuckets } from './sliding-window-buckets.ts';
import { slidingWindowCounter } from './sliding-window-counter.ts';
import { slidingWindowLog } from './sliding-window-log.ts';
import { tokenBucket } from './token-bucket.ts';

/** The algorithms by name in rules. A new one takes a row, a file, and a line in each table that the compiler names. */
export const algorithms = {
  fixed_window: fixedWindow,
  sliding_window_log: slidingWindowLog,
  sliding_window_counter: slidingWindowCounter,
  sliding_window_buckets: slidingWindowBuckets,
  token_bucket: tokenBucket,
  leaky_bucket: leakyBucket,
} as const satisfies Readonly<Record<string, Algorithm>>;

export type RateName = keyof typeof algorithms;

/** The numbers of a limit on a rate, discriminated by its algorithm. */
export type RateLimit = {
  [N in RateName]: (typeof algorithms)[N] extends Algorithm<infer L> ? L : never;
}[RateName];

/** The algorithm of limits that name none. */
export const DEFAULT_ALGORITHM: RateName = 'fixed_window';

/** The names of all algorithms, in the order of the table. */
export const rateNames = Object.keys(algorithms) as readonly RateName[]; // exactly the table's keys

export type Rate = Algorithm<RateLimit>;

/** The rows in the order of the script's table, by which a reservation finds the step of its rate. */
export const rates: readonly Rate[] = Object.values(algorithms as Readonly<Record<RateName, Rate>>); // each of its own kind

/** The row of a limit's algorithm. */
export const rateFor = ({ algorithm }: RateLimit): Rate => algorithms[algorithm] as Rate; // the row of the limit's own kind
