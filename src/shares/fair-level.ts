/** How units are divided among demands. */
export interface FairLevel {
  /** Demands above get this; Infinity: every demand is met. */
  readonly level: number;
  /** What no demand takes, and the sum of the demands, where every demand is met. */
  readonly left: number;
  readonly total: number;
}

/**
 * The max-min fair level: demands below it are met, all others get the level. Twin of `fair_level` in shares.lua.
 *
 * @param units    whole
 * @param demands  whole
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
 * The fair share of one demand. Half of what no demand takes is given away in proportion to the demands; the other half
 * stays free, so that a holder whose demand grows does not have to wait for others to shrink.
 */
export function fairShare({ level, left, total }: FairLevel, demand: number): number {
  return demand > level ? level : demand + Math.floor((left * (demand / Math.max(total, 1))) / 2);
}
