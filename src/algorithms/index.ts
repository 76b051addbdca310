import { fixedWindow } from './fixed-window.ts';
import { leakyBucket } from './leaky-bucket.ts';
import type { Algorithm, Limit } from './limit.ts';
import { slidingWindowBuckets } from './sliding-window-buckets.ts';
import { slidingWindowCounter } from './sliding-window-counter.ts';
import { slidingWindowLog } from './sliding-window-log.ts';
import { tokenBucket } from './token-bucket.ts';

/** Every algorithm by the name that rules give it. A new one is a row here and a pair of files beside this one. */
export const algorithms: { readonly [N in Limit['algorithm']]: Algorithm<Extract<Limit, { algorithm: N }>> } = {
  fixed_window: fixedWindow,
  sliding_window_log: slidingWindowLog,
  sliding_window_counter: slidingWindowCounter,
  sliding_window_buckets: slidingWindowBuckets,
  token_bucket: tokenBucket,
  leaky_bucket: leakyBucket,
};

/** Their names, in the order of the table. */
export const algorithmNames = Object.keys(algorithms) as readonly Limit['algorithm'][]; // the table's keys are exactly these

/** The algorithm a limit names. 10 a minute by `fixed_window`: the row `fixedWindow`. */
export const algorithmFor = (limit: Limit): Algorithm => algorithms[limit.algorithm] as Algorithm; // the row of the limit's own kind
