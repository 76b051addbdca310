import { isHashedValue } from '../record/hashing.ts';
import type { Branch, Level, Node, RuleTree, WildcardIndex } from '../rules/tree.ts';
import { createWildcardIndex } from '../rules/wildcard-index.ts';

/**
 * The same rules, but a hash goes to no pattern for values. The value that was hashed went to none (see `needsValue`),
 * so that by the rules that were recorded, its hash meets the rule that it met, whatever characters the hash has.
 */
export function hashBlind(rules: RuleTree): RuleTree {
  const copies = new Map<Node, Node>();
  const nodeOf = (node: Node): Node => {
    if (!node.children) return node;
    let copy = copies.get(node);
    if (!copy) {
      copy = { ...node, children: levelOf(node.children) };
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
    return { all: nodes, find: (key, value) => (isHashedValue(value) ? ofAnyValue : whole).find(key, value) };
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
