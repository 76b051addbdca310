import { present } from '../../../base/group.ts';
import { comparedWith, placedNodes } from '../../../engine/rules/match/level.ts';
import type { Level, Node, PlacedNode, RuleTree } from '../../../engine/rules/match/tree.ts';

/** A node that leads some of its descriptors to other rules although none of these is added, removed or changed. */
export interface Rerouted {
  /**
   * hides     the node is new and takes precedence over others that lead to the rules
   * uncovers  the node was removed, so that others that lead to the rules are chosen
   * precedes  the node now comes before others with a `*` that used to precede it
   */
  readonly kind: 'hides' | 'uncovers' | 'precedes';
  /** The path of the node. */
  readonly node: string;
  /** The paths of the rules, or of the nodes that it now precedes. */
  readonly others: readonly string[];
  /** Whether this only affects an entry whose value is the literal text of the node, including its `*`. */
  readonly isLiteral?: true;
}

/**
 * Finds descriptors that match other rules because of nodes without a rule to compare, of nodes with fewer rules below
 * them, and of the order of patterns. Descriptors that are neither listed here nor match another rule get the same
 * answer under both rule sets.
 */
export function findRerouted(before: RuleTree, after: RuleTree): readonly Rerouted[] {
  const found: Rerouted[] = [];
  for (const [name, { root }] of after.domains) {
    const was = before.domains.get(name);
    if (was) compareLevels({ before: was.root, after: root }, name, found);
  }
  return found;
}

/** @param found  receives the result */
function compareLevels(
  { before, after }: { readonly before: Level | undefined; readonly after: Level | undefined },
  path: string,
  found: Rerouted[],
): void {
  const [old, now] = [new Siblings(before), new Siblings(after)];
  for (const one of now.all.values())
    if (!old.all.has(one.id)) found.push(...takenBy(one, { without: old, having: now, path }, 'hides'));
  for (const one of old.all.values())
    if (!now.all.has(one.id)) found.push(...takenBy(one, { without: now, having: old, path }, 'uncovers'));
  found.push(...reordered(old, now, path));
  for (const one of now.all.values()) {
    const was = old.all.get(one.id);
    if (was && (was.node.children || one.node.children))
      compareLevels({ before: was.node.children, after: one.node.children }, below(path, one), found);
  }
}

const below = (path: string, { node }: Sibling): string => `${path}.${node.composite}`;

/** The rules that descriptors do not reach because of a node, which only one of two levels has. */
function takenBy(
  one: Sibling,
  { without, having, path }: { readonly without: Siblings; readonly having: Siblings; readonly path: string },
  kind: 'hides' | 'uncovers',
): readonly Rerouted[] {
  const own = new Set(Array.from(rulesBelow(one.node), ([way]) => way));
  const all = new Set<string>();
  const literal = new Set<string>();
  for (const other of without.inexact()) {
    const there = having.all.get(other.id); // otherwise its rules are reported as added or removed
    if (!there || !canBothMatch(one, other)) continue;
    const isChosen = having.isBefore(one, there);
    if (!isChosen && (isExact(one) || !matchesLiteral(other, one))) continue;
    for (const [way, rule] of rulesBelow(other.node)) {
      if (!own.has(way)) (isChosen ? all : literal).add(rule);
    }
  }
  const node = below(path, one);
  const others = [...literal].filter((rule) => !all.has(rule));
  return present([
    all.size > 0 && { kind, node, others: [...all] },
    others.length > 0 && { kind, node, others, isLiteral: true as const },
  ]);
}

/** The rules of a node and below it, with their paths from the node and their own paths. */
function* rulesBelow({ rule, children }: Node, way = ''): Iterable<readonly [way: string, path: string]> {
  if (rule) yield [way, rule.path];
  if (!children) return;
  for (const { id, node } of new Siblings(children).all.values()) yield* rulesBelow(node, `${way}/${id}`);
}

/** Finds nodes with a `*` that are in both levels, may match the same entries, and have changed order. */
function reordered(old: Siblings, now: Siblings, path: string): readonly Rerouted[] {
  const found: Rerouted[] = [];
  const seen = new Set<string>();
  for (const key of ['', ...now.keys]) {
    const [was, is] = [old.findRanks(key), now.findRanks(key)];
    const common = [...is.keys()].filter((id) => was.has(id));
    if (isRising(common.map((id) => was.get(id) ?? 0))) continue;
    for (const [at, id] of common.entries()) {
      const behind = common.slice(at + 1).filter((other) => (was.get(other) ?? 0) < (was.get(id) ?? 0));
      const passed = behind.filter((other) => !seen.has(`${id} ${other}`) && isConcerned(now.all, id, other));
      for (const other of passed) seen.add(`${id} ${other}`);
      const first = now.all.get(id);
      const others = passed.flatMap((other) => now.all.get(other) ?? []).map((one) => below(path, one));
      if (first && others.length > 0) found.push({ kind: 'precedes', node: below(path, first), others });
    }
  }
  return found;
}

const isRising = (numbers: readonly number[]): boolean =>
  numbers.every((number, at) => at === 0 || number > (numbers[at - 1] ?? 0));

/** Whether the order of two nodes can matter. */
function isConcerned(all: Siblings['all'], id: string, otherId: string): boolean {
  const [one, other] = [all.get(id), all.get(otherId)];
  return one !== undefined && other !== undefined && canBothMatch(one, other) && [one, other].some(leadsToRule);
}

const leadsToRule = ({ node }: Sibling): boolean => !rulesBelow(node)[Symbol.iterator]().next().done;

/** A node of a level, and the entries that it matches. */
interface Sibling extends PlacedNode {
  /** Identity shared with the node of the same key and value in another rule set. */
  readonly id: string;
}

/** The nodes of one level, and which of them is chosen if several match. */
export class Siblings {
  readonly all: ReadonlyMap<string, Sibling>;
  readonly #level: Level | undefined;
  /** Positions in the file, by key; '' has the nodes with a pattern for the key. */
  readonly #ranks = new Map<string, ReadonlyMap<string, number>>();

  /** @param level  undefined if the node has no children */
  constructor(level: Level | undefined) {
    this.#level = level;
    const nodes = Array.from(level ? placedNodes(level) : [], (one): Sibling => ({ ...one, id: nodeId(one) }));
    this.all = new Map(nodes.map((one) => [one.id, one]));
  }

  /** Nodes that match more than one text, and may be preceded by nodes for other texts. */
  *inexact(): Iterable<Sibling> {
    for (const one of this.all.values()) if (!isExact(one)) yield one;
  }

  /** Whether `one` is chosen of two nodes of this level that both match a text, neither literally. */
  isBefore(one: Sibling, other: Sibling): boolean {
    const [classOne, classOther] = [nodeRank(one), nodeRank(other)];
    if (classOne !== classOther) return classOne < classOther;
    if (one.value.precedes) return one.value.precedes(other.value);
    const ranks = this.findRanks([one, other].find(({ key }) => key.kind === 'exact')?.key.text ?? '');
    return (ranks.get(one.id) ?? 0) < (ranks.get(other.id) ?? 0);
  }

  /** The nodes with patterns that are compared with entries of this key, in order. */
  findRanks(key: string): ReadonlyMap<string, number> {
    let ranks = this.#ranks.get(key);
    if (!ranks) {
      const compared = this.#level ? comparedWith(this.#level, key) : [];
      ranks = new Map(compared.map((pattern, at) => [nodeId(pattern), at]));
      this.#ranks.set(key, ranks);
    }
    return ranks;
  }

  /** The keys of nodes. */
  get keys(): Iterable<string> {
    return this.#level?.byKey.keys() ?? [];
  }
}

/** Rank of a node among those that match an entry, either that of its value or, if its key is a pattern, of the key. */
const nodeRank = ({ key, value }: Sibling): number => (key.kind === 'exact' ? value.rank : key.rank);

const isExact = ({ key, value }: Sibling): boolean => key.kind === 'exact' && value.kind === 'exact';

/** Whether some entry matches both. */
const canBothMatch = (one: Sibling, other: Sibling): boolean =>
  one.key.overlaps(other.key) && one.value.overlaps(other.value);

/** Whether a node matches the literal text of another one, which takes precedence over all patterns. */
const matchesLiteral = (one: Sibling, { key, value }: Sibling): boolean =>
  value.kind !== 'any_value' && one.key.matches(key.text) && one.value.matches(value.text);

/** Identifies a node among the nodes of its level: equal keys and values are equal. */
const nodeId = ({ key, value }: Pick<PlacedNode, 'key' | 'value'>): string =>
  `${key.text.length}:${key.text}=${value.kind}:${value.text}`;
