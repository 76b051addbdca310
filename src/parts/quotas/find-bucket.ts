import { type RequestWork, TooCostly } from '../../base/request-work.ts';
import type { Overrides } from '../../engine/decide/overrides.ts';
import { type Entry, findNode, match } from '../../engine/rules/match/match.ts';
import type { Level, Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';

/** The rule of a bucket, and the entries that name its counter. */
interface FoundBucket {
  readonly rule: Rule;
  readonly limits: readonly RuleLimit[];
  readonly entries: readonly Entry[];
  /** Whether buckets with other pairs have the same counter. */
  readonly isShared: boolean;
  /** Whether an override takes the place of the rule. */
  readonly isOverridden: boolean;
}

interface SoughtBucket {
  readonly domain: string;
  readonly pairs: readonly Entry[];
  /** Operators' overrides, if any. */
  readonly overrides?: Pick<Overrides, 'apply'> | undefined;
}

/** Maximum number of nodes tried for one bucket. */
const MAX_ATTEMPTS = 256;

/**
 * Finds the rule for the pairs of a bucket id, which have no order. At each level any pair with a known key may come
 * next, and pairs are tried in the order of their keys. The first path that uses all pairs and ends at a rule is taken.
 * An override replaces the limits of the rule.
 *
 * @returns undefined without a rule, or if the work would exceed its maximum
 */
export function findBucket(
  rules: RuleTree,
  { domain, pairs, overrides }: SoughtBucket,
  work: RequestWork,
): FoundBucket | undefined {
  try {
    const root = rules.domains.get(domain)?.root;
    if (!root) return undefined;
    const entries = findPath(root, pairs.toSorted(byKey), { left: MAX_ATTEMPTS, work });
    if (!entries) return undefined;
    const matched = match(rules, domain, { entries, requestLimit: undefined }, { work });
    const found = overrides?.apply(matched, domain, entries) ?? matched;
    const isOverridden = found !== matched;
    if (found.kind === 'unlimited') return { rule: found.rule, limits: [], entries, isShared: false, isOverridden };
    return found.kind === 'limited' ? { ...found, isShared: found.entries !== entries, isOverridden } : undefined;
  } catch (error) {
    if (error instanceof TooCostly) return undefined;
    throw error;
  }
}

const byKey = (one: Entry, other: Entry): number => (one.key < other.key ? -1 : 1);

interface Attempts {
  left: number;
  readonly work: RequestWork;
}

function findPath(level: Level, pairs: readonly Entry[], attempts: Attempts): readonly Entry[] | undefined {
  for (const [at, pair] of pairs.entries()) {
    if (attempts.left-- <= 0) return undefined;
    const node = findNode(level, pair, attempts.work);
    if (!node) continue;
    if (pairs.length === 1) {
      if (node.rule) return [pair];
      continue;
    }
    const rest = node.children && findPath(node.children, pairs.toSpliced(at, 1), attempts);
    if (rest) return [pair, ...rest];
  }
  return undefined;
}
