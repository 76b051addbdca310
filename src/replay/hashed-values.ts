import { isHashedValue, matchDigest } from '../record/hashing.ts';
import type { Branch, Level, Node, RuleTree } from '../rules/tree.ts';
import type { RecordedRequest, ReplayObserver } from './request.ts';

/** Counts requests with hashed values at levels where the rules name values: those cannot be matched. */
export class HashedValues implements ReplayObserver {
  readonly #trees: readonly RuleTree[];
  readonly #digests: readonly string[];
  /** Rule sets that match unlike some that were in force while the requests were recorded. */
  #others: readonly RuleTree[] = [];
  unmatchable = 0;

  constructor(trees: readonly RuleTree[]) {
    this.#trees = trees;
    this.#digests = trees.map(matchDigest);
  }

  /** These rules have matched before values were hashed. */
  recordedUnder(digest: string): void {
    const others = this.#trees.filter((_, at) => this.#digests[at] !== digest);
    this.#others = [...new Set([...this.#others, ...others])];
  }

  observe({ request, hashedBy }: RecordedRequest): void {
    if (!hashedBy || this.#others.length === 0) return;
    const isUnmatchable = this.#others.some((tree) => {
      const root = tree.domains.get(request.domain)?.root;
      return root && request.descriptors.some(({ entries }) => meetsHash(root, entries));
    });
    if (isUnmatchable) this.unmatchable++;
  }
}

/** Whether the way down meets a hash where other values have nodes of their own. */
function meetsHash(root: Level, entries: RecordedRequest['request']['descriptors'][number]['entries']): boolean {
  let level: Level | undefined = root;
  for (const { key, value } of entries) {
    const branch: Branch | undefined = level.byKey.get(key);
    if (isHashedValue(value)) {
      if (branch && (branch.byValue.size > 0 || branch.wildcards.all.length > 0)) return true;
      if (!branch && level.keyWildcards.all.some((node) => node.value !== undefined)) return true;
    }
    const node: Node | undefined =
      branch?.byValue.get(value) ?? (branch?.wildcards ?? level.keyWildcards).find(key, value) ?? branch?.anyValue;
    level = node?.children;
    if (!level) return false;
  }
  return false;
}
