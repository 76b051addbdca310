import type { Domain, Level, Node, Rule, RuleList } from './tree.ts';

/** The rules of a level and below it. */
export function* listedRules(level: Level): Iterable<Rule> {
  for (const { byValue, anyValue } of level.byKey.values()) {
    for (const node of byValue.values()) yield* listedRulesOf(node);
    if (anyValue) yield* listedRulesOf(anyValue);
  }
}

function* listedRulesOf({ rule, children }: Node): Iterable<Rule> {
  if (rule && rule.commitAt === undefined) yield rule;
  if (children) yield* listedRules(children);
}

/** The rules of domains; each iteration walks the trees. */
export function listRules(domains: ReadonlyMap<string, Domain>): RuleList {
  let length = 0;
  for (const { ruleCount } of domains.values()) length += ruleCount;
  return {
    length,
    *[Symbol.iterator]() {
      for (const { root } of domains.values()) yield* listedRules(root);
    },
  };
}
