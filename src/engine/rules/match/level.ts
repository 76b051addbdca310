import { ANY_VALUE, isFixed, textMatcher } from './matchers.ts';
import type { Branch, Level, Node, PlacedNode, RankedNode } from './tree.ts';

/** The nodes of a level with the entries that they match; those of one key in the order of precedence. */
export function* placedNodes(level: Level): Iterable<PlacedNode> {
  for (const [key, branch] of level.byKey) yield* nodesOfKey(key, branch);
}

function* nodesOfKey(text: string, { byValue, addresses, anyValue }: Branch): Iterable<PlacedNode> {
  const key = textMatcher(text);
  for (const [value, node] of byValue) if (isFixed(value)) yield { key, value: textMatcher(value), node };
  yield* addresses?.all ?? [];
  for (const [value, node] of byValue) if (!isFixed(value)) yield { key, value: textMatcher(value), node };
  if (anyValue) yield { key, value: ANY_VALUE, node: anyValue };
}

/** The nodes with patterns that a level compares with entries of this key, in order. */
export function comparedWith({ byKey, keyPatterns }: Level, key: string): readonly RankedNode[] {
  const branch = byKey.get(key);
  if (!branch) return keyPatterns?.all ?? [];
  const others = branch.keyPatterns?.all.filter((one) => one.key.matches(key)) ?? [];
  return [...(branch.patterns?.all ?? []), ...others].sort((one, other) => one.rank - other.rank);
}

/** The nodes that some entries with this key match. */
export function nodesFor(level: Level, key: string): readonly Node[] {
  const branch = level.byKey.get(key);
  const keyed = (branch ? branch.keyPatterns : level.keyPatterns)?.all.filter((one) => one.key.matches(key)) ?? [];
  const own = branch ? Array.from(nodesOfKey(key, branch)) : [];
  return [...own, ...keyed].map(({ node }) => node);
}
