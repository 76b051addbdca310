import { fixedWindow } from './fixed-window.ts';
import { inFlight } from './in-flight.ts';
import { leakyBucket } from './leaky-bucket.ts';
import type { Algorithm, AlgorithmValues, AnyLimit } from './limit.ts';
import { reservationOver } from './reservation.ts';
import { siteShare } from './site-share.ts';
import { slidingWindowBuckets } from './sliding-window-buckets.ts';
import { slidingWindowCounter } from './sliding-window-counter.ts';
import { slidingWindowLog } from './sliding-window-log.ts';
import { tokenBucket } from './token-bucket.ts';

/** Every algorithm by the name that rules give it. A new one is a row here and a pair of files beside this one. */
export const algorithms = {
  fixed_window: fixedWindow,
  sliding_window_log: slidingWindowLog,
  sliding_window_counter: slidingWindowCounter,
  sliding_window_buckets: slidingWindowBuckets,
  token_bucket: tokenBucket,
  leaky_bucket: leakyBucket,
  in_flight: inFlight,
  reservation: reservationOver({ rowOf: rowOfAny, placeOf: placeOfAny }),
  site_share: siteShare,
} as const satisfies Readonly<Record<string, Algorithm>>;

export type AlgorithmName = keyof typeof algorithms;

/** The numbers of one limit, discriminated by its algorithm. */
export type Limit = {
  [N in AlgorithmName]: (typeof algorithms)[N] extends Algorithm<infer L> ? L : never;
}[AlgorithmName];

/** What a limit that does not say is counted by. */
export const DEFAULT_ALGORITHM: AlgorithmName = 'fixed_window';

/** Their names, in the order of the table. */
export const algorithmNames = Object.keys(algorithms) as readonly AlgorithmName[]; // the table's keys are exactly these

/** Most hits of a turn meet limits of one algorithm; V8 searches a table by name each time. */
let last: { readonly name: AlgorithmName; readonly row: Algorithm } = {
  name: 'fixed_window',
  row: algorithms.fixed_window as Algorithm<AnyLimit>,
};

/** Those that rules name: all but what counts with the others, or for one of several sites. */
export const namedAlgorithms = algorithmNames.filter((name) => !rowOf(name).callsOthers && !rowOf(name).isUnnamed);

/** The algorithm a limit names. 10 a minute by `fixed_window`: the row `fixedWindow`. */
// the row of the limit's own kind
export const algorithmFor = (limit: Limit): Algorithm<Limit> => rowOf(limit.algorithm) as Algorithm<Limit>;

/** The row of an algorithm whose limits need not be known. */
export function rowOf(name: AlgorithmName): Algorithm {
  if (name !== last.name) last = { name, row: algorithms[name] as Algorithm<AnyLimit> };
  return last.row;
}

/** The algorithm that rules name for a limit: where hits are reserved first, that of the counter beside. */
export function namedAlgorithmOf(limit: Limit): AlgorithmName {
  if (limit.algorithm === 'site_share') return limit.of;
  return limit.algorithm === 'reservation' ? (limit.inner.algorithm as AlgorithmName) : limit.algorithm; // a rule named it
}

// functions, as the table itself needs them
function rowOfAny({ algorithm }: AnyLimit): Algorithm {
  return rowOf(algorithm as AlgorithmName); // limits have no others
}
function placeOfAny({ algorithm }: AnyLimit): number {
  return algorithmNames.indexOf(algorithm as AlgorithmName) + 1;
}

/** The algorithms that have a key of a rule. */
export const algorithmsWith = (key: keyof AlgorithmValues): readonly AlgorithmName[] =>
  namedAlgorithms.filter((name) => rowOf(name).keys.includes(key));

/** Hits that fit into an unspent counter without a flag: what `remaining` counts down from. */
export const nominalCapacity = (limit: Limit): number => algorithmFor(limit).capacity(limit);

/** Hits that fit into an unspent counter, the soft ones included. */
export const capacityOf = (limit: Limit): number => nominalCapacity(limit) + limit.soft;

/** The longest that a counter of the limit remembers a hit. */
export const longestMemoryMs = (limit: Limit): number => algorithmFor(limit).longestMemoryMs(limit);

/** Whether two limits of one counter decide alike. */
export const isSameLimit = (one: Limit, other: Limit): boolean =>
  one === other || (one.algorithm === other.algorithm && algorithmFor(one).isSame(one, other));

/** The same limit for the request that a number names; one that knows no names is as it was. */
export const heldLimit = (limit: Limit, holder: number): Limit => algorithmFor(limit).holdFor?.(limit, holder) ?? limit;
