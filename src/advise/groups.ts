import { findGap, type Gap } from './gap.ts';
import type { FollowedKey } from './rule-sketch.ts';
import { WeightedValues } from './weighted-values.ts';

/** Clients behind a key from which on it is not one of them. */
const MANY_CLIENTS = 10;
/** People come back; stolen accounts are tried once. */
const HITS_A_CLIENT = 3;

/** The keys of a limit, by what they need. */
export interface KeyGroups {
  /** What is usual. */
  readonly others: readonly FollowedKey[];
  /** Those that need far more. */
  readonly apart: readonly FollowedKey[];
  /** Those that need far more, but not for each of the many clients behind them. */
  readonly shared: readonly FollowedKey[];
  /** Undefined: no key stands apart. */
  readonly gap: Gap | undefined;
}

/**
 * @param demand    the limit that a key needs
 * @param accepted  the part of the usual keys that may need more than a limit
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

/** About; 0: not known. */
export const clientsBehind = ({ arrivals }: FollowedKey): number => arrivals.clients?.estimate ?? 0;

export const weightOf = (keys: readonly FollowedKey[]): number => keys.reduce((sum, { weight }) => sum + weight, 0);

/** How many keys a value of theirs is above a bound of. */
export const weightAbove = (keys: readonly FollowedKey[], value: (key: FollowedKey) => number, bound: number): number =>
  keys.reduce((sum, one) => sum + (value(one) > bound ? one.weight : 0), 0);
