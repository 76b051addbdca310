import { findGap, type Gap } from './gap.ts';
import type { FollowedKey } from './rule-sketch.ts';
import { WeightedValues } from './weighted-values.ts';

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
