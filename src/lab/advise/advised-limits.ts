import { namedAlgorithmOf } from '../../engine/algorithms/index.ts';
import { describeLimit } from '../../engine/rules/match/describe.ts';
import type { Level, Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import type { AdvisedLimit, RuleNode } from './advised-rule.ts';
import { isQuotaWindow } from './propose.ts';

/** A rule on whose limits advice is possible. */
export interface AdvisedRule {
  readonly path: string;
  readonly limits: readonly AdvisedLimit[];
  /** Several values share a counter, so a request's entries do not identify it. */
  readonly sharesCounters: boolean;
}

/** The limits of rules that are rates, and a text for each other limit. */
export function advisedRules(tree: RuleTree): {
  readonly rules: readonly AdvisedRule[];
  readonly skipped: readonly string[];
} {
  const rules: AdvisedRule[] = [];
  const skipped: string[] = [];
  for (const { rule, nodes, sharesCounters } of waysDown(tree)) {
    if (rule.unlimited) skipped.push(`${rule.path}: unlimited; give it a limit with shadow_mode first`);
    if (rule.schedule) {
      skipped.push(
        `${rule.path}: its limits depend on the time; for advice on each, use rules without schedule and active`,
      );
      continue;
    }
    const limits = rule.limits.flatMap((limit, at) => {
      const why = notARate(limit);
      if (why === undefined) return [advisedLimit(rule, nodes, limit, at)];
      skipped.push(`${rule.path}: ${why}`);
      return [];
    });
    if (limits.length > 0) rules.push({ path: rule.path, limits, sharesCounters });
  }
  return { rules, skipped };
}

function notARate({ limit }: RuleLimit): string | undefined {
  if (limit.algorithm === 'in_flight') return 'in_flight limits concurrency, not a rate';
  if (limit.algorithm === 'reservation') return 'the hits of a reservation are known only when it is committed';
  if (limit.algorithm === 'site_share') return 'sites share it, and each site sees only its own part';
  return undefined;
}

function advisedLimit(rule: Rule, nodes: readonly RuleNode[], one: RuleLimit, at: number): AdvisedLimit {
  const { limit, label, policy } = one;
  const { requestsPerUnit, windowMs } = limit;
  const isAnchored = 'anchor' in limit && limit.anchor !== undefined;
  const isAligned = isAnchored || (limit.algorithm === 'fixed_window' && limit.alignment !== 'epoch');
  return {
    ...{ domain: rule.domain, rule: rule.path, nodes, at, of: rule.limits.length },
    text: describeLimit(one),
    ...(label.name !== '' && { name: label.name }),
    ...{ algorithm: namedAlgorithmOf(limit), requestsPerUnit, windowMs },
    ...('burst' in limit && { burst: limit.burst }),
    shadow: policy.shadow ?? false,
    keepsAlgorithm: isAligned || policy.consistency === 'leased' || isQuotaWindow(windowMs),
    leastLimit: Math.max(policy.localShare ?? 1, 1),
  };
}

interface WayDown {
  readonly rule: Rule;
  readonly nodes: readonly RuleNode[];
  readonly sharesCounters: boolean;
}

/** The rules of a tree, each with the nodes on the path to it. */
function* waysDown({ domains }: RuleTree): Iterable<WayDown> {
  for (const { root } of domains.values()) yield* waysDownFrom(root, [], false);
}

function* waysDownFrom(level: Level, above: readonly RuleNode[], isSharedAbove: boolean): Iterable<WayDown> {
  for (const [key, { byValue, anyValue }] of level.byKey) {
    const named = Array.from(byValue, ([value, node]) => [{ key, value }, node] as const);
    for (const [own, node] of anyValue ? [...named, [{ key }, anyValue] as const] : named) {
      const nodes = [...above, own];
      const sharesCounters = isSharedAbove || node.sharedValue !== undefined;
      if (node.rule) yield { rule: node.rule, nodes, sharesCounters };
      if (node.children) yield* waysDownFrom(node.children, nodes, sharesCounters);
    }
  }
}
