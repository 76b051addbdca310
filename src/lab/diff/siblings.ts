import type { Level, Node, WildcardNode } from '../../engine/rules/match/tree.ts';
import { compileWildcard, hasWildcard, overlap } from '../../engine/rules/match/wildcard.ts';

/** A node of a level, and the entries that it matches. */
export interface Sibling {
  /** Equal in another rule set for the node with the same key and value. */
  readonly id: string;
  readonly key: string;
  /** Empty: any value. */
  readonly value: string;
  readonly node: Node;
}

/** The nodes of one level, and which of them is chosen if several match. */
export class Siblings {
  readonly all: ReadonlyMap<string, Sibling>;
  readonly #level: Level | undefined;
  /** Positions in the file, by key; '' has the nodes with a `*` in their keys. */
  readonly #ranks = new Map<string, ReadonlyMap<string, number>>();

  /** @param level  undefined: the node has no children */
  constructor(level: Level | undefined) {
    this.#level = level;
    const all = new Map<string, Sibling>();
    for (const [key, { byValue, anyValue }] of level?.byKey ?? []) {
      for (const [value, node] of byValue) all.set(idOf(key, value), { id: idOf(key, value), key, value, node });
      if (anyValue) all.set(idOf(key, ''), { id: idOf(key, ''), key, value: '', node: anyValue });
    }
    this.all = all;
  }

  /** Nodes that match more than one text, and may be preceded by nodes for other texts. */
  *inexact(): Iterable<Sibling> {
    for (const one of this.all.values()) if (!isExact(one)) yield one;
  }

  /** For two nodes of this level that match a text, neither of them literally: whether `one` is chosen. */
  isBefore(one: Sibling, other: Sibling): boolean {
    if (isExact(one) || isExact(other)) return isExact(one);
    if (isKeyAlone(one) || isKeyAlone(other)) return isKeyAlone(other);
    const ranks = this.ranksOf(hasWildcard(one.key) ? (hasWildcard(other.key) ? '' : other.key) : one.key);
    return (ranks.get(one.id) ?? 0) < (ranks.get(other.id) ?? 0);
  }

  /** The nodes with a `*` that are compared with entries of this key, in order. */
  ranksOf(key: string): ReadonlyMap<string, number> {
    let ranks = this.#ranks.get(key);
    if (!ranks) {
      const index = key === '' ? this.#level?.keyWildcards : this.#level?.byKey.get(key)?.wildcards;
      ranks = new Map((index?.all ?? []).map((wildcard, at) => [idOfWildcard(wildcard), at]));
      this.#ranks.set(key, ranks);
    }
    return ranks;
  }

  /** The keys of nodes with a `*` in their values. */
  get keys(): Iterable<string> {
    return this.#level?.byKey.keys() ?? [];
  }
}

const idOf = (key: string, value: string): string => `${key.length}:${key}=${value}`;
const idOfWildcard = ({ key, value }: WildcardNode): string => idOf(key.text, value?.text ?? '');

const isKeyAlone = ({ key, value }: Sibling): boolean => value === '' && !hasWildcard(key);
export const isExact = ({ key, value }: Sibling): boolean => value !== '' && !hasWildcard(key) && !hasWildcard(value);

/** Whether some entry matches both. */
export const canBothMatch = (one: Sibling, other: Sibling): boolean =>
  overlap(one.key, other.key) && overlap(one.value || '*', other.value || '*');

/** Whether a node with a `*` matches the literal text of another one, which takes precedence over all patterns. */
export const matchesTextOf = (pattern: Sibling, { key, value }: Sibling): boolean =>
  value !== '' && compileWildcard(pattern.key).matches(key) && compileWildcard(pattern.value || '*').matches(value);
