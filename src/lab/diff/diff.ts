import { finish, type Steps } from '../../engine/rules/compile/steps.ts';
import type { Domain, Rule, RuleTree } from '../../engine/rules/match/tree.ts';
import { ruleText } from '../../engine/rules/reload/rule-summary.ts';
import { type CounterFate, fatesOf, isRegrouped, Places } from './places.ts';
import { findRerouted, type Rerouted } from './rerouted.ts';

/** The effects of replacing one rule set by another: everything that can change an answer. */
export interface RuleDiff {
  readonly added: readonly AddedRule[];
  readonly removed: readonly RemovedRule[];
  readonly changed: readonly ChangedRule[];
  readonly rerouted: readonly Rerouted[];
  readonly domains: readonly DomainChange[];
  /** Domains whose `spend` changes, by name. */
  readonly spends: ReadonlyMap<string, { readonly before: string | undefined; readonly after: string | undefined }>;
}

/** A domain that was added or removed, or whose ids of requests changed. */
export interface DomainChange {
  readonly name: string;
  readonly kind: 'added' | 'removed' | 'ids';
}

interface AddedRule {
  readonly rule: Rule;
  /** The rule that its descriptors matched before; undefined: none. */
  readonly before: Rule | undefined;
  readonly counters: readonly CounterFate[];
}

interface RemovedRule {
  readonly rule: Rule;
  /** The rule that its descriptors match now; undefined: none. */
  readonly after: Rule | undefined;
}

interface ChangedRule {
  readonly before: Rule;
  readonly after: Rule;
  readonly counters: readonly CounterFate[];
}

/** Compares rules by the nodes above them. A counter is kept if its name is: algorithm, window and entries. */
export const diffRules = (before: RuleTree, after: RuleTree): RuleDiff => finish(diffSteps(before, after));

/** Like `diffRules`, in steps: it takes time quadratic in the number of patterns of a level. */
export function* diffSteps(before: RuleTree, after: RuleTree): Steps<RuleDiff> {
  const [old, now] = [yield* Places.in(before), yield* Places.in(after)];
  const added: AddedRule[] = [];
  const removed: RemovedRule[] = [];
  const changed: ChangedRule[] = [];
  for (const [id, place] of now.byId) {
    yield 1;
    const was = old.byId.get(id);
    if (!was) {
      const met = old.metBy(place);
      added.push({ rule: place.rule, before: met?.rule, counters: fatesOf(met, place) });
    } else if (ruleText(was.rule) !== ruleText(place.rule) || isRegrouped(was, place))
      changed.push({ before: was.rule, after: place.rule, counters: fatesOf(was, place) });
  }
  for (const [id, place] of old.byId) {
    yield 1;
    if (!now.byId.has(id)) removed.push({ rule: place.rule, after: now.metBy(place)?.rule });
  }
  return {
    ...{ added, removed, changed },
    rerouted: yield* findRerouted(before, after),
    domains: domainChanges(before.domains, after.domains),
    spends: spendsOf(before, after),
  };
}

/** The number of differences. */
export const countDifferences = ({ spends, ...lists }: RuleDiff): number =>
  Object.values(lists).reduce((sum, { length }) => sum + length, spends.size);

function domainChanges(before: RuleTree['domains'], after: RuleTree['domains']): readonly DomainChange[] {
  const idsOf = ({ ids = [] }: Domain): string => JSON.stringify(ids);
  const found: DomainChange[] = [];
  for (const [name, domain] of after) {
    const was = before.get(name);
    if (!was) found.push({ name, kind: 'added' });
    else if (idsOf(was) !== idsOf(domain)) found.push({ name, kind: 'ids' });
  }
  for (const name of before.keys()) if (!after.has(name)) found.push({ name, kind: 'removed' });
  return found;
}

function spendsOf(before: RuleTree, after: RuleTree): RuleDiff['spends'] {
  const spends = new Map<string, { readonly before: string | undefined; readonly after: string | undefined }>();
  for (const [name, { spend }] of after.domains) {
    const was = before.domains.get(name);
    if (was && was.spend !== spend) spends.set(name, { before: was.spend, after: spend });
  }
  return spends;
}
