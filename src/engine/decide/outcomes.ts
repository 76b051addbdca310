import type { Counter } from '../backends/key.ts';
import { createDebit, type Debit, type LedgerEntry, MIN_STATUS } from '../ledger/debit.ts';
import type { RuleLimit, Statuses } from '../rules/match/tree.ts';

/**
 * What the hits of a rule with `count_when` are.
 *
 * asks    a request begins, which the limits check
 * counts  a response with a status that counts
 * spared  any other response
 */
export type Outcome = 'asks' | 'counts' | 'spared';

/** What hits are, and how many count; the outcome is absent for those that are given back, or committed. */
export function findOutcome(
  { ranges }: Statuses,
  hits: number,
  commits: boolean,
): { readonly hits: number; readonly outcome?: Outcome } {
  if (hits < 0 || (commits && hits < MIN_STATUS)) return { hits };
  if (hits < MIN_STATUS) return { hits: Math.max(hits, 1), outcome: 'asks' };
  const isCounted = ranges.some(([first, last]) => hits >= first && hits <= last);
  if (commits) return { hits: isCounted ? 1 : 0 };
  return isCounted ? { hits: 1, outcome: 'counts' } : { hits: 0, outcome: 'spared' };
}

/** Whether a descriptor states the status of a response, whose request has passed already. */
export const isResponse = ({ outcome }: { readonly outcome?: Outcome | undefined }): boolean =>
  outcome === 'counts' || outcome === 'spared';

/** The decision on a response, which nothing refuses. */
export const asPassed = (decision: LedgerEntry): LedgerEntry =>
  decision.code === 'OK' ? decision : { ...decision, code: 'OK', retryAfterMs: 0 };

/** The operation of a request, or of its response: only the latter is counted, and only the former can be refused. */
export function outcomeDebit(
  counter: Counter,
  counted: Pick<RuleLimit, 'limit' | 'policy'>,
  { hits, outcome, refuses }: { readonly hits: number; readonly outcome: Outcome; readonly refuses: boolean },
): Debit {
  if (outcome === 'asks') return { ...createDebit(counter, counted, hits, refuses), kind: 'peek' };
  return { ...createDebit(counter, counted, hits, false, true), isPassed: true };
}
