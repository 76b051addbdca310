import type { Steps } from '../../engine/rules/compile/steps.ts';
import { type Entry, match } from '../../engine/rules/match/match.ts';
import type { Level, Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { hasWildcard } from '../../engine/rules/match/wildcard.ts';
import { Siblings } from './siblings.ts';

/** A rule, and what determines the names of its counters. */
interface RulePlace {
  readonly rule: Rule;
  /**
   * For each level: the text that replaces values that share one counter; undefined: each value has its own counter.
   */
  readonly shared: readonly (string | undefined)[];
  /** A descriptor that matches the rule. For any value and for patterns it has a text that no rule names. */
  readonly entries: readonly Entry[];
}

/** The rules of a tree, by their paths of nodes. */
export class Places {
  readonly byId = new Map<string, RulePlace>();
  readonly #byRule = new Map<Rule, RulePlace>();
  readonly #rules: RuleTree;

  private constructor(rules: RuleTree) {
    this.#rules = rules;
  }

  static *in(rules: RuleTree): Steps<Places> {
    const places = new Places(rules);
    for (const { name, root } of rules.domains.values())
      yield* places.#add(root, { id: `${name}/`, shared: [], entries: [] });
    return places;
  }

  /** The rule here that the descriptors of another tree's rule match. */
  metBy({ rule, entries }: RulePlace): RulePlace | undefined {
    const found = match(this.#rules, rule.domain, { entries, requestLimit: undefined });
    return 'rule' in found ? this.#byRule.get(found.rule) : undefined;
  }

  *#add(level: Level, above: Omit<RulePlace, 'rule'> & { readonly id: string }): Steps<void> {
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
      if (node.children) yield* this.#add(node.children, { id, shared, entries });
      yield 1;
    }
  }
}

/** A rule that commits reservations has the path of its parent's; this one gets its own. */
const shownRule = (rule: Rule, composite: string): Rule =>
  rule.commitAt === undefined ? rule : { ...rule, path: `${rule.path}.${composite}` };

/** A text that no rule names: it only matches rules for any value. */
const UNNAMED_VALUE = '\u0000';

/** A text that matches a text or pattern; for a pattern, one that no rule names. */
const unnamed = (pattern: string): string => (hasWildcard(pattern) ? pattern.replaceAll('*', UNNAMED_VALUE) : pattern);

/** Whether the counters of a limit are kept, or new. */
export interface CounterFate {
  readonly limit: RuleLimit;
  readonly isKept: boolean;
}

/** The positions of entries that are not part of counter names. */
const idPlaces = ({ ids = [] }: Rule): string => ids.map(({ at }) => at).join();

/** Whether the counters of a rule are kept. */
export function fatesOf(before: RulePlace | undefined, after: RulePlace): readonly CounterFate[] {
  const isNamedAlike =
    before !== undefined && idPlaces(before.rule) === idPlaces(after.rule) && !isRegrouped(before, after);
  const counters = new Set(before?.rule.limits.map(({ limit }) => limit.counter));
  return after.rule.limits.map((limit) => ({
    limit,
    isKept: isNamedAlike && counters.has(limit.limit.counter),
  }));
}

/** Whether the grouping of values that share counters differs. */
export const isRegrouped = (before: RulePlace, after: RulePlace): boolean =>
  after.shared.some((text, at) => text !== before.shared[at]);
