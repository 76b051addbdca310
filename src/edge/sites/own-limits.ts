import type { Limit } from '../../engine/algorithms/index.ts';
import type { SiteShareLimit } from '../../engine/algorithms/site-share.ts';

/** The part of the rules that contains their limits. */
interface LimitTable {
  readonly rules: Iterable<{ readonly limits: readonly { readonly limit: Limit }[] }>;
}

/** Finds the limit of this site's own rules by the name of its counters, its rate and its burst. */
export type OwnLimits = (counter: string, requestsPerUnit: number, burst: number) => SiteShareLimit | undefined;

/** @param rules  the rules in force */
export function createOwnLimits(rules: () => LimitTable | undefined): OwnLimits {
  let source: LimitTable | undefined;
  let known = new Map<string, SiteShareLimit>();
  return (counter, requestsPerUnit, burst) => {
    const tree = rules();
    if (tree !== source) {
      source = tree;
      known = new Map(tree ? sharedOf(tree).map((limit) => [nameOf(limit), limit]) : []);
    }
    return known.get(nameOf({ counter, requestsPerUnit, burst }));
  };
}

const sharedOf = ({ rules }: LimitTable): readonly SiteShareLimit[] =>
  [...rules].flatMap(({ limits }) => limits.flatMap(({ limit }) => (limit.algorithm === 'site_share' ? [limit] : [])));

const nameOf = ({ counter, requestsPerUnit, burst }: Pick<SiteShareLimit, 'counter' | 'requestsPerUnit' | 'burst'>) =>
  `${counter}|${requestsPerUnit}|${burst}`;
