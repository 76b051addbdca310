import type { Claim } from './claim.ts';
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

/**
 * Algorithms that limit rates, by their names in rules. A new one takes a row here, two files beside this one, and a
 * line in each table for which the compiler asks.
 */
const rates = {
  fixed_window: fixedWindow,
  sliding_window_log: slidingWindowLog,
  sliding_window_counter: slidingWindowCounter,
  sliding_window_buckets: slidingWindowBuckets,
  token_bucket: tokenBucket,
  leaky_bucket: leakyBucket,
} as const satisfies Readonly<Record<string, Algorithm>>;

export type RateName = keyof typeof rates;

/** Every algorithm: the rates, and counters whose hits have holders or are one site's. */
export const algorithms = {
  ...rates,
  in_flight: inFlight,
  reservation: reservationOver({ rowOf: rowOfAny, placeOf: placeOfAny }),
  site_share: siteShare,
} as const satisfies Readonly<Record<string, Algorithm>>;

export type AlgorithmName = keyof typeof algorithms;

/** The numbers of one limit, discriminated by its algorithm. */
export type Limit = {
  [N in AlgorithmName]: (typeof algorithms)[N] extends Algorithm<infer L> ? L : never;
}[AlgorithmName];

/** Whether hits of the limit are reserved before their number is known. */
export const isReservation = (limit: Limit): limit is Extract<Limit, { algorithm: 'reservation' }> =>
  limit.algorithm === 'reservation';

/** The algorithm of limits that name none. */
export const DEFAULT_ALGORITHM: AlgorithmName = 'fixed_window';

/** The names of all algorithms, in the order of the table. */
export const algorithmNames = Object.keys(algorithms) as readonly AlgorithmName[]; // exactly the table's keys

const isRate = (name: AlgorithmName): name is RateName => Object.hasOwn(rates, name);

/** Whether the limit is on a rate: its hits have no holders, and are not one site's. */
export const isRateLimit = (limit: Limit): limit is Extract<Limit, { algorithm: RateName }> => isRate(limit.algorithm);

/** Most hits of a turn use limits of one algorithm; each lookup in the table costs V8 a search by name. */
let last: { readonly name: AlgorithmName; readonly row: Algorithm } = {
  name: 'fixed_window',
  row: algorithms.fixed_window as Algorithm<AnyLimit>,
};

/** The algorithms that rules can name; another key of a rule selects each of the others. */
export const namedAlgorithms = algorithmNames.filter((name) => isRate(name) || name === 'in_flight');
type NamedAlgorithm = (typeof namedAlgorithms)[number];

/** Whether a counter can go into debt by any number of hits: `charge: always`. */
export const canOwe = (name: AlgorithmName): boolean => isRate(name) && !rowOf(name).keepsEntries;

/** The algorithm of a limit. 10 per minute by `fixed_window`: the row `fixedWindow`. */
// the row of the limit's own kind
export const algorithmFor = (limit: Limit): Algorithm<Limit> => rowOf(limit.algorithm) as Algorithm<Limit>;

/** The row of an algorithm, for uses that do not depend on the type of its limits. */
export function rowOf(name: AlgorithmName): Algorithm {
  if (name !== last.name) last = { name, row: algorithms[name] as Algorithm<AnyLimit> };
  return last.row;
}

/** The algorithm that a rule names for a limit: if hits are reserved first, that of the inner counter. */
export function namedAlgorithmOf(limit: Limit): NamedAlgorithm {
  if (limit.algorithm === 'site_share') return limit.of;
  return limit.algorithm === 'reservation' ? (limit.inner.algorithm as NamedAlgorithm) : limit.algorithm; // a rule named it
}

// functions, since the table itself uses them
function rowOfAny({ algorithm }: AnyLimit): Algorithm {
  return rowOf(algorithm as AlgorithmName); // limits have no others
}
function placeOfAny({ algorithm }: AnyLimit): number {
  return algorithmNames.indexOf(algorithm as AlgorithmName) + 1;
}

/** Whether parts of the limit can be counted in several places: see `Algorithm.divide`. */
export const isDivisible = (limit: Limit): boolean => algorithmFor(limit).divide !== undefined;

/** The algorithms that have a key of a rule. */
export const algorithmsWith = (key: keyof AlgorithmValues): readonly AlgorithmName[] =>
  namedAlgorithms.filter((name) => rowOf(name).keys.includes(key));

/** Hits that fit into an unused counter without a flag: the value that `remaining` counts down from. */
export const nominalCapacity = (limit: Limit): number => algorithmFor(limit).capacity(limit);

/** Hits that fit into an unused counter, including the soft ones. */
export const capacityOf = (limit: Limit): number => nominalCapacity(limit) + limit.soft;

/** The longest that a counter of the limit keeps a hit. */
export const longestMemoryMs = (limit: Limit): number => algorithmFor(limit).longestMemoryMs(limit);

/** The most numbers in a state of the limit, to which the cost of a step is proportional; 0: the cost is constant. */
export const longestState = (limit: Limit, claim?: Claim): number =>
  algorithmFor(limit).longestState?.(limit, claim) ?? 0;

/** The same limit, with at most this delay. */
export const capDelay = (limit: Limit, maxHoldMs: number): Limit =>
  'maxDelayMs' in limit && limit.maxDelayMs > maxHoldMs ? { ...limit, maxDelayMs: maxHoldMs } : limit;

/** Whether two limits of one counter make equal decisions. */
export const isSameLimit = (one: Limit, other: Limit): boolean =>
  one === other || (one.algorithm === other.algorithm && algorithmFor(one).isSame(one, other));

/** Whether hits of the limit have holders: see `Claim`. */
export const hasHolders = (limit: Limit): boolean => algorithmFor(limit).hasHolders === true;
