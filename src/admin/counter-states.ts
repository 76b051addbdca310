import { heldLimit, namedAlgorithmOf } from '../algorithms/index.ts';
import { type Debit, debitOf } from '../ledger/debit.ts';
import { holderOf } from '../ledger/holder.ts';
import { describeLimit } from '../rules/describe.ts';
import { atTime, type Entry, type Match, match } from '../rules/match.ts';
import { placeFields } from '../rules/rule-place.ts';
import type { Rule, RuleLimit, RuleTree } from '../rules/tree.ts';
import { withIds } from '../rules/with-ids.ts';
import { type CounterState, counterState } from './explain.ts';
import type { AdminOptions } from './options.ts';
import { ApiProblem } from './problem.ts';

/** How long the counters may take. */
export const STORE_TIMEOUT_MS = 1_000;

/** A limit of a descriptor, and its counter now. */
export interface FoundCounter {
  readonly rule: Rule;
  readonly limit: RuleLimit;
  readonly debit: Debit;
}

/** @throws Problem  404: no limit applies */
export function countersOf(options: AdminOptions, name: string, entries: readonly Entry[]): readonly FoundCounter[] {
  const rules = options.rules();
  const matched = rules && atTime(matchCounter(rules, name, entries), options.decider.clock);
  const found = matched && (options.decider.overrides?.apply(matched, name, entries) ?? matched);
  if (found?.kind !== 'limited') {
    const why =
      found?.kind === 'unlimited'
        ? `${found.rule.path} is unlimited${found.rule.schedule ? ' at this time' : ''}`
        : 'no rule applies; explain says why';
    throw new ApiProblem(404, `the descriptor has no counters: ${why}`);
  }
  return found.limits.map((limit) => {
    const counter = options.counters(limit.limit, name, found.entries);
    const own = { ...limit, limit: heldLimit(limit.limit, holderOf(found.id ?? '')) };
    return { rule: found.rule, limit, debit: debitOf(counter, own, 0, false) };
  });
}

/** An id may be left out: the counter is the same for all of them. */
function matchCounter(rules: RuleTree, domain: string, entries: readonly Entry[]): Match {
  const found = match(rules, domain, { entries, requestLimit: undefined });
  if (found.kind !== 'no_rule') return found;
  const others = withIds(rules, domain, entries).map((asked) =>
    match(rules, domain, { entries: asked, requestLimit: undefined }),
  );
  return others.find(({ kind }) => kind === 'limited') ?? found;
}

/** What the counters hold, in their order. @throws Problem  503: they cannot be reached */
export async function statesOf(
  options: Pick<AdminOptions, 'ledger'>,
  debits: readonly Debit[],
): Promise<readonly CounterState[]> {
  const fork = await options.ledger.fork(debits, STORE_TIMEOUT_MS);
  const replies = await fork.ledger.peek(debits);
  for (const reply of replies) if (reply.code === 'UNAVAILABLE') throw new ApiProblem(503, reply.reason);
  return debits.map((debit) => counterState(debit.limit, fork.stateOf(debit), fork.nowMs(debit)));
}

export const describeCounter = ({ rule, limit, debit: { key } }: FoundCounter, state: CounterState): object => ({
  rule: rule.path,
  ...placeFields(rule.place),
  ...(limit.label.name !== '' && { name: limit.label.name }),
  limit: describeLimit(limit),
  algorithm: namedAlgorithmOf(limit.limit),
  counter: key,
  ...state,
});
