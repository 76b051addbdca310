import { compileWildcard, hasWildcard } from './pattern.ts';
import type { Branch, Level, Node, WildcardNode } from './tree.ts';
import { createWildcardIndex } from './wildcard-index.ts';

/** The most keys with a `*` in a level: each is compared with each key of the level. */
export const MAX_WILDCARD_KEYS = 1_000;

interface Ranked extends WildcardNode {
  /** Its position among the nodes of the level in the file. */
  readonly rank: number;
}

interface Branching {
  readonly byValue: Map<string, Node>;
  /** Wildcard nodes with exactly this key, with a `*` in the value or in the key. */
  readonly wildcards: Ranked[];
  anyValue: Node | undefined;
}

/** Collects the nodes of one level, in the order of the file. */
export class LevelBuilder {
  readonly #byKey = new Map<string, Branching>();
  /** Nodes with a `*` in their key. */
  readonly #keyWildcards: Ranked[] = [];
  #nodes = 0;

  /** The number of keys with a `*`. */
  get wildcardKeys(): number {
    return new Set(this.#keyWildcards.map(({ key }) => key.text)).size;
  }

  /** @param value  empty: any value */
  has(key: string, value: string): boolean {
    const branch = this.#byKey.get(key);
    return branch !== undefined && (value === '' ? branch.anyValue !== undefined : branch.byValue.has(value));
  }

  /** Adds a node; it replaces one with the same key and value. */
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

  /** Builds the level, one key per step. */
  *build(): Generator<number, Level> {
    const byKey = new Map<string, Branch>();
    for (const [key, { byValue, wildcards, anyValue }] of this.#byKey) {
      const others = this.#keyWildcards.filter((one) => one.key.text !== key && one.key.matches(key));
      const all = [...wildcards, ...others].sort((one, other) => one.rank - other.rank);
      // a spread would give each branch its own hidden class in V8, which slows every match down
      byKey.set(key, { byValue, wildcards: createWildcardIndex(all, 'value'), anyValue });
      // indexing a key takes far less time than compiling a node, and trying a pattern even less
      yield 0.1 + (wildcards.length + this.#keyWildcards.length) / 64;
    }
    return { byKey, keyWildcards: createWildcardIndex(this.#keyWildcards, 'key') };
  }
}
