import { MAX_COUNT } from '../algorithms/limit.ts';
import { ANONYMOUS } from '../holds/claim.ts';
import type { Limit } from '../holds/limits.ts';
import type { LedgerEntry } from '../ledger/debit.ts';
import type { Match } from '../rules/match/match.ts';
import type { Rule } from '../rules/match/tree.ts';

/** What a descriptor counts: hits, or under a budget their cost in billionths of its currency. */
interface Amounts {
  hits: number;
  cost: number;
}

/** A descriptor whose hits have a price. */
export interface Priced {
  readonly counted: Amounts;
  /** It is counted with an earlier part of the same commit: `counted` is 0. */
  readonly isAdded: boolean;
}

/** A descriptor with the hits that it asks for. */
interface Asked {
  readonly found: Match;
  readonly hits: number;
  readonly priced?: Priced | undefined;
}

/**
 * Adds the cost of hits that have a price. Parts of a commit, such as input and output tokens of one request, become
 * one commit, since the store counts a request's commit once: the first part counts all of them.
 */
export function withPrices<A extends Asked>(all: readonly A[]): readonly A[] {
  if (!all.some(({ found }) => found.kind === 'limited' && found.rule.unitCost)) return all;
  const commits = new Map<string, Amounts>();
  return all.map((one): A => {
    const { found, hits } = one;
    const price = found.kind === 'limited' ? found.rule.unitCost : undefined;
    if (found.kind !== 'limited' || !price) return one;
    if (!price.isPart || found.id === undefined)
      return { ...one, priced: { counted: { hits, cost: capped(hits * price.billionths) }, isAdded: false } };
    const used = Math.abs(hits); // the sign of a commit does not matter
    const name = JSON.stringify([found.rule.path, found.id, found.entries]);
    const first = commits.get(name);
    const counted = first ?? { hits: 0, cost: 0 };
    counted.hits = capped(counted.hits + used);
    counted.cost = capped(counted.cost + used * price.billionths);
    commits.set(name, counted);
    return { ...one, priced: { counted: first ? { hits: 0, cost: 0 } : counted, isAdded: first !== undefined } };
  });
}

/** Products and sums below 2^53 are exact. */
const capped = (amount: number): number => Math.max(Math.min(amount, MAX_COUNT), -MAX_COUNT);

/** What a descriptor counts under one of its limits. */
export function amountUnder({ currency }: Limit, { hits, priced }: Pick<Asked, 'hits' | 'priced'>): number {
  if (!priced) return hits;
  return currency === undefined ? priced.counted.hits : priced.counted.cost;
}

/** The hits of a verdict; that of a budget has what they cost. */
export const hitsOf = ({ hits, limit, rule }: { hits: number; limit: Limit; rule: Pick<Rule, 'unitCost'> }): number =>
  rule.unitCost && limit.currency !== undefined ? hits / rule.unitCost.billionths : hits;

/** The holder of hits. A part that another one counts must not settle the reservation. */
export const chooseHolder = (holder: number, { priced }: Pick<Asked, 'priced'>): number =>
  priced?.isAdded ? ANONYMOUS : holder;

/** The decision on a part of a commit that another part has charged. */
export const addedTo = ({ reservation, ...decision }: LedgerEntry): LedgerEntry =>
  reservation ? { ...decision, reservation: { ...reservation, event: 'added' } } : decision;
