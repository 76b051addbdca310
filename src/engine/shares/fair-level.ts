/** The division of units among demands. */
interface FairLevel {
  /** Larger demands get this; Infinity: every demand is met. */
  readonly level: number;
  /** The remaining units, and the sum of the demands, if every demand is met. */
  readonly left: number;
  readonly total: number;
}

/**
 * The max-min fair level: demands below it are met, all others get the level. Twin of `fair_level` in shares.lua.
 *
 * @param units    an integer
 * @param demands  integers
 * @see https://en.wikipedia.org/wiki/Max-min_fairness
 */
export function fairLevel(units: number, demands: readonly number[]): FairLevel {
  const ascending = demands.toSorted((one, other) => one - other);
  let left = units;
  let total = 0;
  for (const [at, demand] of ascending.entries()) {
    const level = Math.floor(left / (ascending.length - at));
    if (demand > level) return { level, left: 0, total };
    left -= demand;
    total += demand;
  }
  return { level: Number.POSITIVE_INFINITY, left, total };
}

/**
 * The fair share of one demand. Half of the remaining units is distributed in proportion to the demands; the other half
 * remains free, so that a holder whose demand grows does not have to wait for others to shrink.
 */
export function fairShare({ level, left, total }: FairLevel, demand: number): number {
  return demand > level ? level : demand + Math.floor((left * (demand / Math.max(total, 1))) / 2);
}
