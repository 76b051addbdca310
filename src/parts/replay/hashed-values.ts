import { isHash } from '../../base/hashed.ts';
import { type Entry, findNode, inRuleOrder } from '../../engine/rules/match/match.ts';
import type { Domain, Level, RuleTree } from '../../engine/rules/match/tree.ts';
import { matchDigest } from '../lab/record/hashing.ts';
import type { RecordedRequest, ReplayedAnswer, ReplayObserver } from './request.ts';

/** A rule set that answers requests with hashed values. */
interface Side {
  readonly rules: RuleTree;
  readonly digest: string;
  /** Whether these rules match like all rules in use during the recording. */
  isAsRecorded: boolean;
}

/** Counts requests with hashed values that cannot be matched, or match other rules than when they were recorded. */
export class HashedValues implements ReplayObserver {
  readonly #sides: readonly Side[];
  #isAnyRecorded = false;
  /** Number of requests with a hash where rules other than the recorded ones name values. */
  unmatchable = 0;
  /** Number of requests that match other rules than when they were recorded, although the rules are the same. */
  mismatched = 0;

  constructor(trees: readonly RuleTree[]) {
    this.#sides = trees.map((tree) => ({ rules: tree, digest: matchDigest(tree), isAsRecorded: false }));
  }

  /** @param digest  digest of the rules that matched requests before their values were hashed */
  onRules(digest: string): void {
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
        const domain = rules.domains.get(request.domain);
        isUnmatchable ||= domain !== undefined && request.descriptors.some(({ entries }) => meetsHash(domain, entries));
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
function meetsHash(domain: Domain, entries: readonly Entry[]): boolean {
  let level: Level | undefined = domain.root;
  for (const entry of inRuleOrder(domain, entries)) {
    if (!level) return false;
    if (isHash(entry.value) && namesValues(level, entry.key)) return true;
    level = findNode(level, entry, undefined, isHash)?.children;
  }
  return false;
}

/** Whether a level has nodes for certain values of this key. */
function namesValues({ byKey, keyPatterns }: Level, key: string): boolean {
  const branch = byKey.get(key);
  if (branch && (branch.byValue.size > 0 || branch.addresses || branch.patterns)) return true;
  const keyed = branch ? branch.keyPatterns : keyPatterns;
  return keyed?.all.some((one) => one.value.kind !== 'any_value' && one.key.matches(key)) ?? false;
}

/**
 * Rules under which a hash matches no value pattern. The original value matched none either (see `needsValue`), so under
 * the recorded rules, its hash matches the same rule whatever its characters.
 */
export const hashBlind = (rules: RuleTree): RuleTree => ({ ...rules, isOpaque: isHash });
