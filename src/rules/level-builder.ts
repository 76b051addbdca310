import type { Steps } from './steps.ts';
import type { Branch, Level, Node, WildcardNode } from './tree.ts';
import { compileWildcard, hasWildcard } from './wildcard.ts';
import { createWildcardIndex } from './wildcard-index.ts';

/** Keys with a `*` that a level may have: each of them is held against each key of the level. */
export const MAX_WILDCARD_KEYS = 1_000;

interface Ranked extends WildcardNode {
  /** Its place in the file among those of the level. */
  readonly rank: number;
}

interface Branching {
  readonly byValue: Map<string, Node>;
  /** Those of exactly this key, with a `*` in the value or in the key. */
  readonly wildcards: Ranked[];
  anyValue: Node | undefined;
}

/** Gathers the nodes of one level, in the order of the file. */
export class LevelBuilder {
  readonly #byKey = new Map<string, Branching>();
  /** Those with a `*` in their key. */
  readonly #keyWildcards: Ranked[] = [];
  #nodes = 0;

  /** Keys with a `*`. */
  get wildcardKeys(): number {
    return new Set(this.#keyWildcards.map(({ key }) => key.text)).size;
  }

  /** @param value  empty: any value */
  has(key: string, value: string): boolean {
    const branch = this.#byKey.get(key);
    return branch !== undefined && (value === '' ? branch.anyValue !== undefined : branch.byValue.has(value));
  }

  /** Adds a node; it takes the place of one with the same key and value. */
  add(key: string, value: string, node: Node): void {
    const branch: Branching = this.#byKey.get(key) ?? { byValue: new Map(), wildcards: [], anyValue: undefined };
    this.#byKey.set(key, branch);
    if (value === '') branch.anyValue = node;
    else branch.byValue.set(value, node);
    if (!hasWildcard(key) && !hasWildcard(value)) return;
    const pattern = { key: compileWildcard(key), value: value === '' ? undefined : compileWildcard(value) };
    const ranked = { ...pattern, node, rank: this.#nodes++ };
    branch.wildcards.push(ranked);
    if (hasWildcard(key)) this.#keyWildcards.push(ranked);
  }

  /** Makes the level, a key a step. */
  *build(): Steps<Level> {
    const byKey = new Map<string, Branch>();
    for (const [key, { wildcards, ...branch }] of this.#byKey) {
      const others = this.#keyWildcards.filter((one) => one.key.text !== key && one.key.matches(key));
      const all = [...wildcards, ...others].sort((one, other) => one.rank - other.rank);
      byKey.set(key, { ...branch, wildcards: createWildcardIndex(all, 'value') });
      // indexing a key takes far less time than compiling a node, and trying a pattern less still
      yield 0.1 + (wildcards.length + this.#keyWildcards.length) / 64;
    }
    return { byKey, keyWildcards: createWildcardIndex(this.#keyWildcards, 'key') };
  }
}
