import { ruleAsJson } from '../../../edge/listing/describe.ts';
import { describeLimit } from '../../../engine/rules/match/describe-limit.ts';
import { type Entry, match } from '../../../engine/rules/match/match.ts';
import type { Domain, Level, Rule, RuleLimit, RuleTree } from '../../../engine/rules/match/tree.ts';
import { ruleText } from '../../../operate/observe/rule-summary.ts';
import { findRerouted, type Rerouted, Siblings } from './rerouted.ts';

interface HasCounters {
  readonly counters: readonly CounterFate[];
}

/** A value of a domain that changed. */
type Spends = { readonly before?: string; readonly after?: string };

/** Everything that can change an answer when one rule set replaces another. */
export interface RuleDiff {
  /** Each with the rule that its descriptors matched before, if any. */
  readonly added: readonly (HasCounters & { readonly rule: Rule; readonly before: Rule | undefined })[];
  /** Each with the rule that its descriptors match now, if any. */
  readonly removed: readonly { readonly rule: Rule; readonly after: Rule | undefined }[];
  readonly changed: readonly (HasCounters & { readonly before: Rule; readonly after: Rule })[];
  readonly rerouted: readonly Rerouted[];
  /** Domains that were added or removed, or whose ids of requests changed. */
  readonly domains: readonly { readonly name: string; readonly kind: 'added' | 'removed' | 'ids' }[];
  /** Domains whose `spend` changes, by name. */
  readonly spends: ReadonlyMap<string, Spends>;
}

/**
 * Compares rules by the nodes above them. A counter is kept if its name (algorithm, window and entries) is unchanged.
 * Takes time quadratic in the number of patterns of a level.
 */
export function diffRules(before: RuleTree, after: RuleTree): RuleDiff {
  const [old, now] = [new Places(before), new Places(after)];
  const added: RuleDiff['added'][number][] = [];
  const changed: RuleDiff['changed'][number][] = [];
  for (const [id, place] of now.byId) {
    const was = old.byId.get(id);
    if (!was) {
      const met = old.metBy(place);
      added.push({ rule: place.rule, before: met?.rule, counters: counterFates(met, place) });
    } else if (ruleText(was.rule) !== ruleText(place.rule) || isRegrouped(was, place))
      changed.push({ before: was.rule, after: place.rule, counters: counterFates(was, place) });
  }
  const gone = [...old.byId].filter(([id]) => !now.byId.has(id));
  const removed = gone.map(([, place]) => ({ rule: place.rule, after: now.metBy(place)?.rule }));
  return {
    added,
    removed,
    changed,
    rerouted: findRerouted(before, after),
    domains: domainChanges(before.domains, after.domains),
    spends: spendChanges(before, after),
  };
}

/** The number of differences. */
export const countDifferences = ({ spends, ...lists }: RuleDiff): number =>
  Object.values(lists).reduce((sum, { length }) => sum + length, spends.size);

function domainChanges(before: RuleTree['domains'], after: RuleTree['domains']): RuleDiff['domains'] {
  const idsText = ({ ids = [] }: Domain): string => JSON.stringify(ids);
  const kept = [...after].flatMap(([name, domain]) => {
    const was = before.get(name);
    if (!was) return { name, kind: 'added' } as const;
    return idsText(was) === idsText(domain) ? [] : ({ name, kind: 'ids' } as const);
  });
  const removed = [...before.keys()].filter((name) => !after.has(name));
  return [...kept, ...removed.map((name) => ({ name, kind: 'removed' }) as const)];
}

function spendChanges(before: RuleTree, after: RuleTree): RuleDiff['spends'] {
  const spends = new Map<string, Spends>();
  for (const [name, { spend }] of after.domains) {
    const was = before.domains.get(name);
    if (was && was.spend !== spend)
      spends.set(name, { ...(was.spend && { before: was.spend }), ...(spend && { after: spend }) });
  }
  return spends;
}

const fateJson = ({ limit, isKept }: CounterFate) =>
  ({ limit: describeLimit(limit), counters: isKept ? 'kept' : 'new' }) as const;

/** The comparison as JSON. */
export const diffJson = ({ added, removed, changed, rerouted, domains, spends }: RuleDiff) => ({
  added: added.map(({ rule, before, counters }) => ({
    rule: ruleAsJson(rule),
    ...(before && { before: before.path }),
    counters: counters.map(fateJson),
  })),
  removed: removed.map(({ rule, after }) => ({ rule: ruleAsJson(rule), ...(after && { after: after.path }) })),
  changed: changed.map(({ before, after, counters }) => ({
    before: ruleAsJson(before),
    after: ruleAsJson(after),
    counters: counters.map(fateJson),
  })),
  rerouted,
  domains,
  spends: Object.fromEntries(spends),
});

/** A rule, and what determines the names of its counters. */
interface RulePlace {
  readonly rule: Rule;
  /** For each level, the text that replaces values that share one counter; undefined if each value has its own. */
  readonly shared: readonly (string | undefined)[];
  /** A descriptor that matches the rule, with a text that no rule names for patterns and for any value. */
  readonly entries: readonly Entry[];
}

/** The rules of a tree, by their paths of nodes. */
class Places {
  readonly byId = new Map<string, RulePlace>();
  readonly #byRule = new Map<Rule, RulePlace>();
  readonly #rules: RuleTree;

  constructor(rules: RuleTree) {
    this.#rules = rules;
    for (const { name, root } of rules.domains.values()) this.#add(root, { id: `${name}/`, shared: [], entries: [] });
  }

  /** The rule of this tree that the descriptors of another tree's rule match. */
  metBy({ rule, entries }: RulePlace): RulePlace | undefined {
    const found = match(this.#rules, rule.domain, { entries, requestLimit: undefined });
    return 'rule' in found ? this.#byRule.get(found.rule) : undefined;
  }

  #add(level: Level, above: Omit<RulePlace, 'rule'> & { readonly id: string }): void {
    for (const { id: own, key, value, node } of new Siblings(level).all.values()) {
      const id = `${above.id}${own}/`;
      const entry = { key: key.example(UNNAMED_VALUE), value: value.example(UNNAMED_VALUE) };
      const shared = [...above.shared, node.sharedValue];
      const entries = [...above.entries, entry];
      if (node.rule) {
        const place = { rule: shownRule(node.rule, node.composite), shared, entries };
        this.byId.set(id, place);
        this.#byRule.set(node.rule, place);
      }
      if (node.children) this.#add(node.children, { id, shared, entries });
    }
  }
}

/** Gives a rule that commits reservations a path of its own, since it has its parent's. */
const shownRule = (rule: Rule, composite: string): Rule =>
  rule.commitAt === undefined ? rule : { ...rule, path: `${rule.path}.${composite}` };

/** A text that no rule names, which only matches rules for any value. */
const UNNAMED_VALUE = '\u0000';

/** Whether the counters of a limit are kept, or new. */
interface CounterFate {
  readonly limit: RuleLimit;
  readonly isKept: boolean;
}

/** Positions of entries that are not part of counter names. */
const idPlaces = ({ ids = [] }: Rule): string => ids.map(({ at }) => at).join();

/** Whether the counters of a rule are kept. */
function counterFates(before: RulePlace | undefined, after: RulePlace): readonly CounterFate[] {
  const isNamedAlike =
    before !== undefined && idPlaces(before.rule) === idPlaces(after.rule) && !isRegrouped(before, after);
  const counters = new Set(before?.rule.limits.map(({ limit }) => limit.counter));
  return after.rule.limits.map((limit) => ({
    limit,
    isKept: isNamedAlike && counters.has(limit.limit.counter),
  }));
}

/** Whether the grouping of values that share counters differs. */
const isRegrouped = (before: RulePlace, after: RulePlace): boolean =>
  after.shared.some((text, at) => text !== before.shared[at]);
