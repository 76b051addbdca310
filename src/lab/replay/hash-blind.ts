import { isHash } from '../../base/hashed.ts';
import type { Branch, Level, Node, RuleTree, WildcardIndex } from '../../engine/rules/match/tree.ts';
import { createWildcardIndex } from '../../engine/rules/match/wildcard-index.ts';

/**
 * The same rules, except that a hash matches no value pattern. The original value matched none either (see
 * `needsValue`), so under the recorded rules, its hash matches the same rule, whatever characters the hash has.
 */
export function hashBlind(rules: RuleTree): RuleTree {
  const copies = new Map<Node, Node>();
  const nodeOf = (node: Node): Node => {
    const { composite, naming, sharedValue, hasRule, rule, children } = node;
    if (!children) return node;
    let copy = copies.get(node);
    if (!copy) {
      copy = { composite, naming, sharedValue, hasRule, rule, children: levelOf(children) };
      copies.set(node, copy);
    }
    return copy;
  };
  const indexOf = ({ all }: WildcardIndex, by: 'key' | 'value'): WildcardIndex => {
    const nodes = all.map((one) => ({ ...one, node: nodeOf(one.node) }));
    const whole = createWildcardIndex(nodes, by);
    const ofAnyValue = createWildcardIndex(
      nodes.filter(({ value }) => !value),
      by,
    );
    return {
      all: nodes,
      find: (key, value, work) => (isHash(value) ? ofAnyValue : whole).find(key, value, work),
    };
  };
  const branchOf = ({ byValue, wildcards, anyValue }: Branch): Branch => ({
    byValue: new Map(Array.from(byValue, ([value, node]) => [value, nodeOf(node)])),
    wildcards: indexOf(wildcards, 'value'),
    anyValue: anyValue && nodeOf(anyValue),
  });
  const levelOf = ({ byKey, keyWildcards }: Level): Level => ({
    byKey: new Map(Array.from(byKey, ([key, branch]) => [key, branchOf(branch)])),
    keyWildcards: indexOf(keyWildcards, 'key'),
  });
  const domains = Array.from(
    rules.domains,
    ([name, domain]) => [name, { ...domain, root: levelOf(domain.root) }] as const,
  );
  return { ...rules, domains: new Map(domains) };
}
