import type { NodeHead } from '../read/node-source.ts';
import { addressNodes } from './addresses.ts';
import { textMatcher, valueMatcher } from './matchers.ts';
import { nodesByKey, nodesByValue } from './pattern-nodes.ts';
import { RequiredKeys } from './required-keys.ts';
import type { Branch, KeyOrder, Level, Node, PlacedNode, RankedNode } from './tree.ts';

/** Maximum number of keys of a level that are patterns, each of which is compared with each key of the level. */
export const MAX_PATTERN_KEYS = 1_000;

interface Branching {
  readonly byValue: Map<string, Node>;
  /** Nodes with exactly this key and blocks of addresses. */
  readonly addresses: PlacedNode[];
  /** Nodes with exactly this key and a pattern for the value. */
  readonly patterns: RankedNode[];
  anyValue: Node | undefined;
}

const emptyBranch = (): Branching => ({
  byValue: new Map(),
  addresses: [],
  patterns: [],
  anyValue: undefined,
});

/** Collects the nodes of one level, in the order of the file. */
export class LevelBuilder {
  readonly #byKey = new Map<string, Branching>();
  readonly #keyPatterns: RankedNode[] = [];
  #nodes = 0;
  order: KeyOrder | undefined;
  required: RequiredKeys | undefined;

  get patternKeys(): number {
    return new Set(this.#keyPatterns.map(({ key }) => key.text)).size;
  }

  /** Adds a node; it replaces one with the same key and value. */
  add(head: NodeHead, node: Node): void {
    const { key = '', value = '', addresses } = head;
    const branch = this.#byKey.get(key) ?? emptyBranch();
    this.#byKey.set(key, branch);
    if (head.required) this.required = new RequiredKeys(head.required);
    const matchers = { key: textMatcher(key), value: valueMatcher(head) };
    if (addresses) {
      branch.addresses.push({ ...matchers, node });
      return;
    }
    if (value === '') branch.anyValue = node;
    else branch.byValue.set(value, node);
    if (matchers.key.kind === 'wildcard') this.#keyPatterns.push({ ...matchers, node, rank: this.#nodes++ });
    else if (matchers.value.kind === 'wildcard') branch.patterns.push({ ...matchers, node, rank: this.#nodes++ });
  }

  /** Builds the level, one key per step. */
  *build(): Generator<number, Level> {
    const keyPatterns = yield* nodesByKey(this.#keyPatterns);
    const byKey = new Map<string, Branch>();
    for (const [key, { byValue, addresses, patterns, anyValue }] of this.#byKey) {
      const isMatched = this.#keyPatterns.some((one) => one.key.matches(key));
      // a spread would give each branch its own hidden class in V8, which slows every match down
      byKey.set(key, {
        byValue,
        addresses: yield* addressNodes(addresses),
        patterns: yield* nodesByValue(patterns),
        keyPatterns: isMatched ? keyPatterns : undefined,
        anyValue,
      });
      // indexing a key takes far less time than compiling a node, and trying a pattern even less
      yield 0.1 + this.#keyPatterns.length / 64;
    }
    return { byKey, keyPatterns, required: this.required, order: this.order };
  }
}
