import { MAX_WINDOW_MS } from '../algorithms/limit.ts';
import type { Counters } from '../backends/key.ts';
import { isReservation, isShared, limitsInFlight } from '../holds/limits.ts';
import type { Debit } from '../ledger/debit.ts';
import { type Counted, countedBy, type Match } from '../rules/match/match.ts';
import type { RuleLimit } from '../rules/match/tree.ts';

type LimitedMatch = Extract<Match, { kind: 'limited' }>;

/**
 * The limit of a match whose hits are its usage, if usage is counted: of several, one whose hits are reserved first, else
 * the one with the longest window, limits in shadow mode last. Requests in flight have no usage, and that of hits that
 * are reserved is their commit, whatever operators put in their place.
 */
export function findMetered(
  { metersUsage = false }: { readonly metersUsage?: boolean },
  { limits, overridden, rule }: Pick<LimitedMatch, 'limits' | 'overridden' | 'rule'>,
): RuleLimit | undefined {
  if (!metersUsage || (overridden && rule.limits.some(isHeld))) return undefined;
  let found: RuleLimit | undefined;
  for (const one of limits) {
    if (limitsInFlight(one.limit) || one.policy.watches) continue;
    if (found === undefined || rank(one) > rank(found)) found = one;
  }
  return found;
}

const isHeld = ({ limit }: RuleLimit): boolean => limitsInFlight(limit) || isReservation(limit);

function rank({ limit, policy }: RuleLimit): number {
  if (isReservation(limit)) return MAX_WINDOW_MS + limit.windowMs; // a request and its commit have these in common
  return policy.shadow ? 0 : limit.windowMs;
}

/** The debit with its hits as usage: of the child, if children share the limit. */
export function meteredDebit(
  debit: Debit,
  { counters }: { readonly counters: Counters },
  found: Counted & { domain: string },
): Debit {
  const { limit } = debit;
  if (!found.children?.length || !isShared(limit))
    return { ...debit, metered: debit.policy.charge === 'always' ? 'all' : true };
  return { ...debit, metered: true, usageKey: counters(limit, found.domain, countedBy(found)).key };
}
