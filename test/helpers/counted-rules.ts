import type { Level, RuleTree } from '../../src/engine/rules/match/tree.ts';

/** The rules, with a callback for each visit of a value of the first level. */
export function countedRules(rules: RuleTree, onVisited: () => void): RuleTree {
  const counted = (root: Level): Level => ({
    ...root,
    byKey: new Map(
      Array.from(root.byKey, ([key, branch]) => [key, { ...branch, byValue: counting(branch.byValue, onVisited) }]),
    ),
  });
  const domains = Array.from(rules.domains, ([name, one]) => [name, { ...one, root: counted(one.root) }] as const);
  return Object.create(rules, { domains: { value: new Map(domains) } });
}

function counting<K, V>(items: ReadonlyMap<K, V>, onVisited: () => void): ReadonlyMap<K, V> {
  function* visit<T>(all: Iterable<T>): MapIterator<T> {
    for (const one of all) {
      onVisited();
      yield one;
    }
  }
  const copy = new Map(items);
  return Object.assign(copy, {
    keys: () => visit(items.keys()),
    entries: () => visit(items.entries()),
    [Symbol.iterator]: () => visit(items.entries()),
  });
}
