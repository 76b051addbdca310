import { ruleText } from './changes.ts';
import { type Entry, match } from './match.ts';
import { findRerouted, type Rerouted } from './rerouted.ts';
import { Siblings } from './siblings.ts';
import type { Domain, Level, Rule, RuleLimit, RuleTree } from './tree.ts';
import { hasWildcard } from './wildcard.ts';

/** What replacing one rule set by another does: whatever can change an answer is in it. */
export interface RuleDiff {
  readonly added: readonly AddedRule[];
  readonly removed: readonly RemovedRule[];
  readonly changed: readonly ChangedRule[];
  readonly rerouted: readonly Rerouted[];
  readonly domains: readonly DomainChange[];
  /** Domains whose requests spend otherwise, by name. */
  readonly spends: ReadonlyMap<string, { readonly before: string | undefined; readonly after: string | undefined }>;
}

/** A domain that is new or gone, or where other entries are ids of requests. */
export interface DomainChange {
  readonly name: string;
  readonly kind: 'added' | 'removed' | 'ids';
}

export interface AddedRule {
  readonly rule: Rule;
  /** The rule that its descriptors met before; undefined: none. */
  readonly before: Rule | undefined;
  readonly counters: readonly CounterFate[];
}

export interface RemovedRule {
  readonly rule: Rule;
  /** The rule that its descriptors meet now; undefined: none. */
  readonly after: Rule | undefined;
}

export interface ChangedRule {
  readonly before: Rule;
  readonly after: Rule;
  readonly counters: readonly CounterFate[];
}

/** Whether the counters of a limit go on as they are, or are new. */
export interface CounterFate {
  readonly limit: RuleLimit;
  readonly isKept: boolean;
}

/** Compares rules by the nodes above them. Counters go on where their names stay: by algorithm, window and entries. */
export function diffRules(before: RuleTree, after: RuleTree): RuleDiff {
  const [old, now] = [new Places(before), new Places(after)];
  const added: AddedRule[] = [];
  const changed: ChangedRule[] = [];
  for (const [id, place] of now.byId) {
    const was = old.byId.get(id);
    if (!was) {
      const met = old.metBy(place);
      added.push({ rule: place.rule, before: met?.rule, counters: fatesOf(met, place) });
    } else if (ruleText(was.rule) !== ruleText(place.rule) || isRegrouped(was, place))
      changed.push({ before: was.rule, after: place.rule, counters: fatesOf(was, place) });
  }
  const removed = [...old.byId].flatMap(([id, place]) =>
    now.byId.has(id) ? [] : { rule: place.rule, after: now.metBy(place)?.rule },
  );
  return {
    ...{ added, removed, changed },
    rerouted: findRerouted(before, after),
    domains: domainChanges(before.domains, after.domains),
    spends: spendsOf(before, after),
  };
}

/** How many differences there are. */
export const countDifferences = ({ spends, ...lists }: RuleDiff): number =>
  Object.values(lists).reduce((sum, { length }) => sum + length, spends.size);

/** A rule, and what names its counters. */
interface RulePlace {
  readonly rule: Rule;
  /** One a level: the text that stands for the values that share one counter; undefined: each value has its own. */
  readonly shared: readonly (string | undefined)[];
  /** A descriptor that meets it; for any value, and for a pattern, with one that no rule names. */
  readonly entries: readonly Entry[];
}

/** The rules of a tree, by the nodes down to them. */
class Places {
  readonly byId = new Map<string, RulePlace>();
  readonly #byRule = new Map<Rule, RulePlace>();
  readonly #rules: RuleTree;

  constructor(rules: RuleTree) {
    this.#rules = rules;
    for (const { name, root } of rules.domains.values()) this.#add(root, { id: `${name}/`, shared: [], entries: [] });
  }

  /** The rule here that the descriptors of a rule of another tree meet. */
  metBy({ rule, entries }: RulePlace): RulePlace | undefined {
    const found = match(this.#rules, rule.domain, { entries, requestLimit: undefined });
    return 'rule' in found ? this.#byRule.get(found.rule) : undefined;
  }

  #add(level: Level, above: Omit<RulePlace, 'rule'> & { readonly id: string }): void {
    for (const { id: own, key, value, node } of new Siblings(level).all.values()) {
      const id = `${above.id}${own}/`;
      const entry = { key: unnamed(key), value: value === '' ? UNNAMED_VALUE : unnamed(value) };
      const [shared, entries] = [
        [...above.shared, node.sharedValue],
        [...above.entries, entry],
      ];
      if (node.rule) {
        const place = { rule: shownRule(node.rule, node.composite), shared, entries };
        this.byId.set(id, place);
        this.#byRule.set(node.rule, place);
      }
      if (node.children) this.#add(node.children, { id, shared, entries });
    }
  }
}

/** A rule that charges what a reservation used has the path of the one above it. */
const shownRule = (rule: Rule, composite: string): Rule =>
  rule.commitAt === undefined ? rule : { ...rule, path: `${rule.path}.${composite}` };

/** No rule names it: what meets a rule for any value. */
const UNNAMED_VALUE = '\u0000';

/** What matches a text or pattern, and is named by no rule if that is a pattern. */
const unnamed = (pattern: string): string => (hasWildcard(pattern) ? pattern.replaceAll('*', UNNAMED_VALUE) : pattern);

/** Where the entries stand that counters are not named by. */
const idPlaces = ({ ids = [] }: Rule): string => ids.map(({ at }) => at).join();

function fatesOf(before: RulePlace | undefined, after: RulePlace): readonly CounterFate[] {
  const isNamedAlike =
    before !== undefined && idPlaces(before.rule) === idPlaces(after.rule) && !isRegrouped(before, after);
  const counters = new Set(before?.rule.limits.map(({ limit }) => limit.counter));
  return after.rule.limits.map((limit) => ({
    limit,
    isKept: isNamedAlike && counters.has(limit.limit.counter),
  }));
}

/** Whether values share counters otherwise. */
const isRegrouped = (before: RulePlace, after: RulePlace): boolean =>
  after.shared.some((text, at) => text !== before.shared[at]);

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
