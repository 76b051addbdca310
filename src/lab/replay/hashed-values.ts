import { isHash } from '../../base/hashed.ts';
import { type Entry, findNode } from '../../engine/rules/match/match.ts';
import type { Branch, Level, Node, RuleTree, WildcardIndex } from '../../engine/rules/match/tree.ts';
import { createWildcardIndex } from '../../engine/rules/match/wildcard-index.ts';
import { matchDigest } from '../record/hashing.ts';
import type { RecordedRequest, ReplayedAnswer, ReplayObserver } from './request.ts';

/** A rule set that answers requests with hashed values. */
interface Side {
  /** See `hashBlind`. */
  readonly rules: RuleTree;
  readonly digest: string;
  /** These rules match like all rules that were in force during the recording. */
  isAsRecorded: boolean;
}

/** Counts requests with hashed values that cannot be matched, or match other rules than when they were recorded. */
export class HashedValues implements ReplayObserver {
  readonly #sides: readonly Side[];
  #isAnyRecorded = false;
  /** Requests with a hash where rules other than the recorded ones name values. */
  unmatchable = 0;
  /** Requests that match other rules than when they were recorded, although the rules are the same. */
  mismatched = 0;

  constructor(trees: readonly RuleTree[]) {
    this.#sides = trees.map((tree) => ({ rules: hashBlind(tree), digest: matchDigest(tree), isAsRecorded: false }));
  }

  /** @param digest  of rules that matched requests before their values were hashed */
  recordedUnder(digest: string): void {
    for (const side of this.#sides)
      side.isAsRecorded = (side.isAsRecorded || !this.#isAnyRecorded) && side.digest === digest;
    this.#isAnyRecorded = true;
  }

  observe({ request, hashedBy }: RecordedRequest, ...answers: readonly (ReplayedAnswer | undefined)[]): void {
    if (!hashedBy) return;
    let [isUnmatchable, isMismatched] = [false, false];
    for (const [at, { rules, isAsRecorded }] of this.#sides.entries()) {
      if (isAsRecorded) isMismatched ||= meetsOthers(request, hashedBy, answers[at]);
      else {
        const root = rules.domains.get(request.domain)?.root;
        isUnmatchable ||= root !== undefined && request.descriptors.some(({ entries }) => meetsHash(root, entries));
      }
    }
    if (isUnmatchable) this.unmatchable++;
    if (isMismatched) this.mismatched++;
  }
}

/** Whether a descriptor matches another rule than when it was recorded. Ignores descriptors with their own limit. */
function meetsOthers(
  { descriptors }: RecordedRequest['request'],
  hashedBy: readonly (string | undefined)[],
  answer: ReplayedAnswer | undefined,
): boolean {
  if (!answer || hashedBy.length !== descriptors.length) return false;
  return descriptors.some(
    ({ requestLimit }, at) => requestLimit === undefined && answer.descriptors[at]?.rule !== hashedBy[at],
  );
}

/** Whether the path through the rules has a hash where nodes for specific values exist. */
function meetsHash(root: Level, entries: readonly Entry[]): boolean {
  let level: Level | undefined = root;
  for (const entry of entries) {
    if (!level) return false;
    const branch = level.byKey.get(entry.key);
    if (isHash(entry.value)) {
      if (branch && (branch.byValue.size > 0 || branch.wildcards.all.some(({ value }) => value))) return true;
      if (!branch && level.keyWildcards.all.some(({ key, value }) => value && key.matches(entry.key))) return true;
    }
    level = findNode(level, entry)?.children;
  }
  return false;
}

/**
 * The same rules, except that a hash matches no value pattern. The original value matched none either (see
 * `needsValue`), so under the recorded rules, its hash matches the same rule, whatever characters the hash has.
 */
export function hashBlind(rules: RuleTree): RuleTree {
  const copies = new Map<Node, Node>();
  const nodeOf = (node: Node): Node => {
    const { composite, naming, sharedValue, hasRule, rule, children } = node;
    if (!children) return node;
    let copy = copies.get(node);
    if (!copy) {
      copy = { composite, naming, sharedValue, hasRule, rule, children: levelOf(children) };
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
    return {
      all: nodes,
      find: (key, value, work) => (isHash(value) ? ofAnyValue : whole).find(key, value, work),
    };
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
