import type { FollowedKey } from './rule-sketch.ts';
import { quantileRank, WeightedValues } from './weighted-values.ts';

/** From this number of clients on, a key is shared: it does not stand for one of them. */
const MANY_CLIENTS = 10;
/** Legitimate users return, while an attacker tries each stolen account once. */
const HITS_A_CLIENT = 3;

/** The keys of a limit, grouped by their demand. */
export interface KeyGroups {
  /** Keys with a normal demand. */
  readonly others: readonly FollowedKey[];
  /** Keys that need far more. */
  readonly apart: readonly FollowedKey[];
  /** Keys that need far more in total, but not per client, since many clients share each. */
  readonly shared: readonly FollowedKey[];
  /** Undefined: no key stands apart. */
  readonly gap: Gap | undefined;
}

/**
 * @param demand    the limit that a key needs
 * @param accepted  the share of the normal keys that may need more than the limit
 */
export function groupKeys(
  followed: readonly FollowedKey[],
  demand: (key: FollowedKey) => number,
  accepted: number,
): KeyGroups {
  const gap = findGap(
    new WeightedValues(followed.map((one) => ({ value: demand(one), weight: one.weight }))),
    1 - accepted,
  );
  if (!gap) return { others: followed, apart: [], shared: [], gap };
  const beyond = followed.filter((one) => demand(one) >= gap.above);
  const isShared = (one: FollowedKey): boolean => {
    const clients = clientsBehind(one);
    const isReturning = one.arrivals.hits >= HITS_A_CLIENT * clients;
    return clients >= MANY_CLIENTS && isReturning && demand(one) / clients <= gap.below;
  };
  return {
    others: followed.filter((one) => demand(one) < gap.above),
    apart: beyond.filter((one) => !isShared(one)),
    shared: beyond.filter(isShared),
    gap,
  };
}

/** The approximate number; 0: unknown. */
export const clientsBehind = ({ arrivals }: FollowedKey): number => arrivals.clients?.estimate ?? 0;

export const weightOf = (keys: readonly FollowedKey[]): number => keys.reduce((sum, { weight }) => sum + weight, 0);

/** The number of keys whose value exceeds the bound. */
export const weightAbove = (keys: readonly FollowedKey[], value: (key: FollowedKey) => number, bound: number): number =>
  keys.reduce((sum, one) => sum + (value(one) > bound ? one.weight : 0), 0);

/** The largest share of all keys that may stand apart: a larger group is normal traffic. */
const MOST_APART = 1 / 3;

/** The least ratio of their demand to that of nearly all other keys. */
const LEAST_RATIO = 3;

/**
 * The least difference of the square roots that is not explained by chance. The root of a Poisson count has a standard
 * deviation of one half, so this is almost three standard deviations of the difference of two counts.
 *
 * @see https://en.wikipedia.org/wiki/Anscombe_transform
 */
const LEAST_ROOT_DIFFERENCE = 2;

/** The boundary between most keys and the keys that need far more. */
interface Gap {
  /** The most that nearly all other keys need. */
  readonly below: number;
  /** The least that the keys apart need. */
  readonly above: number;
}

/**
 * The lowest value from which on keys need far more than nearly all keys below it, if few enough keys do; undefined:
 * the keys are one group.
 *
 * @param part  the share of the keys below that counts as nearly all
 */
function findGap({ sorted, total }: WeightedValues, part: number): Gap | undefined {
  const sums: number[] = []; // up to and including each value
  let sum = 0;
  let squares = 0;
  for (const { value, weight } of sorted) {
    const low = sums.length === 0 ? 0 : below(sorted, sums, quantileRank(part, (sum * sum) / squares) * sum);
    if (sums.length > 0 && total - sum <= MOST_APART * total && isGap(low, value)) return { below: low, above: value };
    sum += weight;
    squares += weight * weight;
    sums.push(sum);
  }
  return undefined;
}

const isGap = (low: number, high: number): boolean =>
  high >= LEAST_RATIO * low && Math.sqrt(high) - Math.sqrt(low) >= LEAST_ROOT_DIFFERENCE;

/** The first value up to which the weights add up to `weight`. */
function below(sorted: WeightedValues['sorted'], sums: readonly number[], weight: number): number {
  let [low, high] = [0, sums.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sums[middle] ?? 0) >= weight - 1e-9) high = middle;
    else low = middle + 1;
  }
  return sorted[low]?.value ?? 0;
}
