import { canBlock } from '../../holds/limits.ts';
import type { IdEntry, Node, Rule, RuleLimit } from '../match/tree.ts';
import type { Block } from '../read/block.ts';
import type { Problems } from '../read/problem.ts';

/** The level of a node: the node above, and the entries down to it. */
interface LevelAbove {
  readonly node: Pick<Node, 'rule'> | undefined;
  readonly levels: readonly string[];
  readonly ids: readonly IdEntry[];
  readonly problems: Problems;
}

/** The rule, with the limits of the node above whose blocks apply to it. */
export function withBlocks(
  { values: { blocked_by: names, shadow_mode: shadow, quota_mode: quota }, place }: Block<'node'>,
  rule: Rule | undefined,
  { node, levels, ids, problems }: LevelAbove,
): Rule | undefined {
  if (!names || !rule) return rule;
  const report = (message: string): undefined => problems.error(place('blocked_by'), message);
  if (rule.unlimited || rule.schedule || rule.commitAt !== undefined || rule.sharedBelow !== undefined)
    return report(
      'blocked_by cannot be used beside unlimited, active, schedule, share and not_counted: commit: remove one of them',
    );
  const above = levels.length - ids.length;
  const watched = names.flatMap((name): readonly RuleLimit[] => {
    const found = node?.rule?.limits.find(
      ({ limit, label, times }) => label.name === name && !times && canBlock(limit),
    );
    if (!found) report(`blocked_by requires a limit with penalty and the name '${name}' on the node directly above`);
    if (!found) return [];
    const policy = { ...found.policy, ...(shadow && { shadow }), ...(quota && { quota }), watches: true } as const;
    return [{ ...found, limit: { ...found.limit, above }, policy }];
  });
  return { ...rule, limits: [...rule.limits, ...watched] };
}
