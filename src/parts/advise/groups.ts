import type { FollowedKey } from './rule-sketch.ts';
import { quantileRank, WeightedValues } from './weighted-values.ts';

/** Number of clients from which a key counts as shared, and does not represent one client. */
const MANY_CLIENTS = 10;
/** Minimum hits per client of a shared key; legitimate users return, but an attacker tries each stolen account once. */
const HITS_PER_CLIENT = 3;

/** The keys of a limit, grouped by their demand. */
export type KeyGroups = Readonly<ReturnType<typeof groupKeys>>;

/**
 * @param demand    returns the limit that a key needs
 * @param accepted  fraction of the normal keys that may need more than the limit
 */
export function groupKeys(followed: readonly FollowedKey[], demand: (key: FollowedKey) => number, accepted: number) {
  const gap = findGap(collectValues(followed, demand), 1 - accepted);
  if (!gap) return { others: followed, apart: [], shared: [], gap };
  const beyond = followed.filter((one) => demand(one) >= gap.above);
  const isShared = (one: FollowedKey): boolean => {
    const clients = clientsBehind(one);
    const isReturning = one.arrivals.hits >= HITS_PER_CLIENT * clients;
    return clients >= MANY_CLIENTS && isReturning && demand(one) / clients <= gap.below;
  };
  return {
    /** Keys with a normal demand. */
    others: followed.filter((one) => demand(one) < gap.above),
    /** Outliers, which need far more. */
    apart: beyond.filter((one) => !isShared(one)),
    /** Keys that need far more in total but not per client, since many clients share each. */
    shared: beyond.filter(isShared),
    /** Gap between normal keys and outliers; undefined without outliers. */
    gap,
  };
}

export const collectValues = (keys: readonly FollowedKey[], value: (key: FollowedKey) => number): WeightedValues =>
  new WeightedValues(keys.map((one) => ({ value: value(one), weight: one.weight })));

/** Approximate number of clients behind a key; 0 if unknown. */
export const clientsBehind = ({ arrivals }: FollowedKey): number => arrivals.clients?.estimate ?? 0;

export const totalWeight = (keys: readonly FollowedKey[]): number => keys.reduce((sum, { weight }) => sum + weight, 0);

/** Number of keys whose value exceeds the bound. */
export const weightAbove = (keys: readonly FollowedKey[], value: (key: FollowedKey) => number, bound: number): number =>
  keys.reduce((sum, one) => sum + (value(one) > bound ? one.weight : 0), 0);

/** Maximum fraction of outliers among all keys; a larger group is normal traffic. */
const MAX_APART_FRACTION = 1 / 3;

/** Minimum ratio of an outlier's demand to that of nearly all other keys. */
const MIN_RATIO = 3;

/**
 * Minimum difference of the square roots that chance does not explain. The root of a Poisson count has a standard
 * deviation of one half, so this is almost three standard deviations of the difference of two counts.
 *
 * @see https://en.wikipedia.org/wiki/Anscombe_transform
 */
const MIN_ROOT_DIFFERENCE = 2;

/** Boundary between normal keys and outliers. */
interface Gap {
  /** Maximum that nearly all other keys need. */
  readonly below: number;
  /** Minimum that outliers need. */
  readonly above: number;
}

/**
 * Finds the lowest value from which keys need far more than nearly all keys below it, if few enough keys do. Returns
 * undefined if the keys form one group.
 *
 * @param part  fraction of the keys below that counts as nearly all
 */
function findGap({ sorted, total }: WeightedValues, part: number): Gap | undefined {
  const sums: number[] = []; // up to and including each value
  let sum = 0;
  let squares = 0;
  for (const { value, weight } of sorted) {
    const low = sums.length === 0 ? 0 : below(sorted, sums, quantileRank(part, (sum * sum) / squares) * sum);
    if (sums.length > 0 && total - sum <= MAX_APART_FRACTION * total && isGap(low, value))
      return { below: low, above: value };
    sum += weight;
    squares += weight * weight;
    sums.push(sum);
  }
  return undefined;
}

const isGap = (low: number, high: number): boolean =>
  high >= MIN_RATIO * low && Math.sqrt(high) - Math.sqrt(low) >= MIN_ROOT_DIFFERENCE;

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
