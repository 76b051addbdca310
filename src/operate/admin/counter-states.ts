import { heldLimit, namedAlgorithmOf } from '../../engine/algorithms/index.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import { type Debit, debitOf } from '../../engine/ledger/debit.ts';
import { holderOf } from '../../engine/ledger/holder.ts';
import { describeLimit, placeFields } from '../../engine/rules/match/describe.ts';
import { atTime, type Entry, type Match, match, withIds } from '../../engine/rules/match/match.ts';
import type { Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { type CounterState, counterState } from './explain.ts';
import type { AdminOptions } from './options.ts';
import { ApiProblem } from './problem.ts';

/** The timeout of the store. */
export const STORE_TIMEOUT_MS = 1_000;

/** A limit of a descriptor, and its counter. */
export interface FoundCounter {
  readonly rule: Rule;
  readonly limit: RuleLimit;
  readonly debit: Debit;
}

/** The counters of a descriptor, for operators to see and change. */
interface DescriptorCounters {
  /** Under an exemption, the counters of the rule, which applies again when it ends. */
  readonly counters: readonly FoundCounter[];
  readonly override?: StandingOverride;
}

/** @throws ApiProblem  404: no limit applies */
export function countersOf(options: AdminOptions, name: string, entries: readonly Entry[]): DescriptorCounters {
  const { clock, overrides } = options.decider;
  const rules = options.rules();
  const matched = rules && atTime(matchCounter(rules, name, entries), clock);
  const applied = matched && (overrides?.apply(matched, name, entries) ?? matched);
  const override = matched && applied !== matched ? overrides?.of(matched, name, entries) : undefined;
  const found = override?.effect.kind === 'exempt' ? matched : applied;
  if (found?.kind !== 'limited') {
    const why =
      found?.kind === 'unlimited'
        ? `${found.rule.path} is unlimited${found.rule.schedule ? ' at this time' : ''}`
        : 'no rule applies; explain says why';
    throw new ApiProblem(404, `the descriptor has no counters: ${why}`);
  }
  const counters = found.limits.map((limit): FoundCounter => {
    const counter = options.counters(limit.limit, name, found.entries);
    const own = { ...limit, limit: heldLimit(limit.limit, holderOf(found.id ?? '')) };
    return { rule: found.rule, limit, debit: debitOf(counter, own, 0, false) };
  });
  return { counters, ...(override && { override }) };
}

/** The entries of an id may be missing: the counter is the same for all ids. */
function matchCounter(rules: RuleTree, domain: string, entries: readonly Entry[]): Match {
  const found = match(rules, domain, { entries, requestLimit: undefined });
  if (found.kind !== 'no_rule') return found;
  const others = withIds(rules, domain, entries).map((sent) =>
    match(rules, domain, { entries: sent, requestLimit: undefined }),
  );
  return others.find(({ kind }) => kind === 'limited') ?? found;
}

/** The states of the counters, in their order. @throws ApiProblem  503: the counters cannot be reached */
export async function statesOf(
  options: Pick<AdminOptions, 'ledger'>,
  debits: readonly Debit[],
): Promise<readonly CounterState[]> {
  const fork = await options.ledger.fork(debits, STORE_TIMEOUT_MS);
  for (const debit of debits) {
    const failure = fork.failureOf(debit);
    if (failure !== undefined) throw new ApiProblem(503, failure);
  }
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
