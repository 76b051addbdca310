import type { Limit } from '../algorithms/index.ts';
import { inOnePiece } from '../backends/key.ts';
import type { Rule } from '../rules/tree.ts';
import { cutName, NameRoom, OTHER } from './caller-names.ts';
import { RecentMaximum } from './recent-maximum.ts';
import { asStatisticName } from './statistic-name.ts';

/** What became of hits, in hits. The names are envoyproxy/ratelimit's. */
export interface HitCounts {
  totalHits: number;
  withinLimit: number;
  nearLimit: number;
  overLimit: number;
  /** Those of `overLimit` that were refused from memory of an earlier refusal. */
  overLimitWithLocalCache: number;
  shadowMode: number;
  /** Hits of requests that passed on the soft part of a limit. */
  softLimit: number;
  /** Descriptors that the rule answered OK. */
  answeredOk: number;
  /** Descriptors that the rule answered OVER_LIMIT. */
  answeredOver: number;
}

export const NO_HITS: HitCounts = {
  ...{ totalHits: 0, withinLimit: 0, nearLimit: 0, overLimit: 0 },
  ...{ overLimitWithLocalCache: 0, shadowMode: 0, softLimit: 0, answeredOk: 0, answeredOver: 0 },
};
export const hitCounts = Object.keys(NO_HITS) as readonly (keyof HitCounts)[]; // it has no others

/** What became of the hits of one rule. */
export interface RuleCounts extends HitCounts {
  readonly domain: string;
  /** The names of the levels below the domain. */
  readonly levels: readonly string[];
  /** The levels' names with dots between. */
  readonly rule: string;
  readonly algorithm: Limit['algorithm'];
  readonly named: Rule['named'];
  /** Domain and levels as a part of a statistic's name: two rules may have the same. */
  readonly key: string;
  /** The highest share of its limit that any counter of the rule had used. */
  readonly share: RecentMaximum;
}

/** The counts of one rule as another process can be sent them. */
export type CountedRule = Omit<RuleCounts, 'rule' | 'key' | 'share'> & { readonly highestShare: number };

/** A rule, and what its levels are called this time. */
type Found = { readonly rule: Rule; readonly levels: readonly string[] };

/**
 * The counts of each rule, by what its statistics are kept under and by algorithm. Rules of the operator's files that name their own levels
 * always have their own.
 *
 * @param maxNameBytes  what the names that callers have a part in may come to
 */
export function createRuleCounts(maxNameBytes: number) {
  const known = new Map<string, RuleCounts>();
  const byLimit = new WeakMap<Limit, RuleCounts>(); // of rules whose statistics have one name, whatever is asked
  const others = newCounts(OTHER, [OTHER], 'fixed_window', 'by_request');
  const room = new NameRoom(maxNameBytes);
  const byName = (
    domain: string,
    written: readonly string[],
    algorithm: Limit['algorithm'],
    named: Rule['named'],
  ): RuleCounts => {
    const levels = named === 'by_rule' ? written : cutName(written);
    const path = levels.join('.');
    if (domain === OTHER && path === OTHER) return others; // also those of another process: a series comes once on a page
    const name = `${algorithm} ${domain.length}:${domain}.${path}`; // a dot in a domain makes two paths read alike
    const counts = known.get(name);
    if (counts) return counts;
    if (named !== 'by_rule' && !room.take(levels)) return others;
    const fresh = newCounts(domain, levels.map(inOnePiece), algorithm, named);
    known.set(inOnePiece(name), fresh);
    return fresh;
  };
  return {
    of: byName,
    ofLimit(domain: string, { rule, levels }: Found, limit: Limit): RuleCounts {
      const known = byLimit.get(limit);
      if (known) return known;
      const counts = byName(domain, levels, limit.algorithm, rule.named);
      if (rule.named === 'by_rule') byLimit.set(limit, counts);
      return counts;
    },
    /** Whether the rule of the operator's files that names its own levels has counts. */
    has: (domain: string, { levels, named }: Pick<Rule, 'levels' | 'named'>, algorithm: Limit['algorithm']): boolean =>
      named === 'by_rule' && known.has(`${algorithm} ${domain.length}:${domain}.${levels.join('.')}`),
    /** Those that there are now: later ones are not in the list. */
    all: (): readonly RuleCounts[] => [...known.values(), ...(others.totalHits > 0 ? [others] : [])],
  };
}

function newCounts(
  domain: string,
  levels: readonly string[],
  algorithm: Limit['algorithm'],
  named: Rule['named'],
): RuleCounts {
  const rule = levels.join('.');
  const key = inOnePiece(asStatisticName(`${domain}.${rule}`));
  return { domain, levels, rule, algorithm, named, key, share: new RecentMaximum(), ...NO_HITS };
}
