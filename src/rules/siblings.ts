import type { Level, Node, WildcardNode } from './tree.ts';
import { compileWildcard, hasWildcard, overlap } from './wildcard.ts';

/** A node of a level, by what it matches. */
export interface Sibling {
  /** The same in another rule set for the node with the same key and value. */
  readonly id: string;
  readonly key: string;
  /** Empty: any value. */
  readonly value: string;
  readonly node: Node;
}

/** The nodes of one level, and which of them is chosen where several match. */
export class Siblings {
  readonly all: ReadonlyMap<string, Sibling>;
  readonly #level: Level | undefined;
  /** Places in the file order, by the key whose nodes they are; '' for those with a `*` in their keys. */
  readonly #ranks = new Map<string, ReadonlyMap<string, number>>();

  /** @param level  undefined: there is none */
  constructor(level: Level | undefined) {
    this.#level = level;
    const all = new Map<string, Sibling>();
    for (const [key, { byValue, anyValue }] of level?.byKey ?? []) {
      for (const [value, node] of byValue) all.set(idOf(key, value), { id: idOf(key, value), key, value, node });
      if (anyValue) all.set(idOf(key, ''), { id: idOf(key, ''), key, value: '', node: anyValue });
    }
    this.all = all;
  }

  /** Those that more than one text leads to, and that nodes of other texts may stand before. */
  *inexact(): Iterable<Sibling> {
    for (const one of this.all.values()) if (!isExact(one)) yield one;
  }

  /** Of two that are here and match a text, neither of them literally: whether the one is chosen. */
  isBefore(one: Sibling, other: Sibling): boolean {
    if (isExact(one) || isExact(other)) return isExact(one);
    if (isKeyAlone(one) || isKeyAlone(other)) return isKeyAlone(other);
    const ranks = this.ranksOf(hasWildcard(one.key) ? (hasWildcard(other.key) ? '' : other.key) : one.key);
    return (ranks.get(one.id) ?? 0) < (ranks.get(other.id) ?? 0);
  }

  /** The nodes with a `*` that entries with this key are held against, in their order. */
  ranksOf(key: string): ReadonlyMap<string, number> {
    let ranks = this.#ranks.get(key);
    if (!ranks) {
      const index = key === '' ? this.#level?.keyWildcards : this.#level?.byKey.get(key)?.wildcards;
      ranks = new Map((index?.all ?? []).map((wildcard, at) => [idOfWildcard(wildcard), at]));
      this.#ranks.set(key, ranks);
    }
    return ranks;
  }

  /** The keys that nodes with a `*` in their values are below. */
  get keys(): Iterable<string> {
    return this.#level?.byKey.keys() ?? [];
  }
}

const idOf = (key: string, value: string): string => `${key.length}:${key}=${value}`;
const idOfWildcard = ({ key, value }: WildcardNode): string => idOf(key.text, value?.text ?? '');

const isKeyAlone = ({ key, value }: Sibling): boolean => value === '' && !hasWildcard(key);
export const isExact = ({ key, value }: Sibling): boolean => value !== '' && !hasWildcard(key) && !hasWildcard(value);

/** Whether some entry is matched by both. */
export const canBothMatch = (one: Sibling, other: Sibling): boolean =>
  overlap(one.key, other.key) && overlap(one.value || '*', other.value || '*');

/** Whether a node with a `*` matches the very text of another one, which goes before all patterns. */
export const matchesTextOf = (pattern: Sibling, { key, value }: Sibling): boolean =>
  value !== '' && compileWildcard(pattern.key).matches(key) && compileWildcard(pattern.value || '*').matches(value);
