import { createHash } from 'node:crypto';
import type { SiteSplit } from '../../engine/holds/claim.ts';
import {
  type Above,
  buildNodeRule,
  childContext,
  nodeTraits,
  topContext,
} from '../../engine/rules/compile/node-rule.ts';
import { type PackedDomain, unpack } from '../../engine/rules/compile/packed.ts';
import type { NodeSource } from '../../engine/rules/compile/tree-builder.ts';
import type { Rule } from '../../engine/rules/match/tree.ts';
import { nodeId } from '../../engine/rules/read/node-source.ts';
import { checkedBefore } from '../../engine/rules/read/problem.ts';

/** The part of a rule that is needed to compare two versions. */
export interface RuleSummary {
  readonly path: string;
  /** Equal for equal rules, wherever they are written; undefined if the rule charges what its parent's reserved. */
  readonly digest: string | undefined;
  /** Equal if the same values share a counter. */
  readonly grouping: string;
  /** The positions of entries that are not part of counter names. */
  readonly ids: string;
  /** The counters of its limits, by algorithm and window. */
  readonly counters: readonly string[];
}

/** By the keys and values on the path to each rule. */
export type RuleSummaries = ReadonlyMap<string, RuleSummary>;

/** Reads the nodes of a domain one after another, since a tree of all would take several times the memory. */
export function summarize(domain: PackedDomain, split: SiteSplit | undefined): RuleSummaries {
  const summaries = new Map<string, RuleSummary>();
  const addLevel = (nodes: NodeSource, above: Above, { id: parent, groups }: Chain): void => {
    for (let sourced = nodes.next(); sourced; sourced = nodes.next()) {
      const { head, block } = sourced.written;
      const { composite, sharedValue } = nodeTraits(head);
      const chain = { id: `${parent}${nodeId(head)}/`, groups: [...groups, sharedValue] };
      const here = childContext(block, above);
      const rule = buildNodeRule(block, { above, here });
      if (rule) summaries.set(chain.id, createSummary({ rule, composite }, chain));
      if (sourced.below) addLevel(sourced.below, { ...here, node: { rule } }, chain);
    }
  };
  addLevel(unpack(domain), topContext(domain.name, split, checkedBefore), { id: `${domain.name}/`, groups: [] });
  return summaries;
}

interface Chain {
  readonly id: string;
  /** For each node: the text that replaces values that share a counter. */
  readonly groups: readonly (string | undefined)[];
}

const createSummary = (
  { rule, composite }: { readonly rule: Rule; readonly composite: string },
  { groups }: Chain,
): RuleSummary => ({
  path: rule.commitAt === undefined ? rule.path : `${rule.path}.${composite}`,
  digest: rule.commitAt === undefined ? digestRule(rule) : undefined,
  grouping: JSON.stringify(groups),
  ids: (rule.ids ?? []).map(({ at }) => at).join(),
  counters: rule.limits.map(({ limit }) => limit.counter),
});

const digestRule = (rule: Rule): string => createHash('sha256').update(ruleText(rule)).digest('base64url');

/** A rule as text, without its place. */
export const ruleText = ({ place: _, overlaid: __, ...rule }: Rule): string => JSON.stringify(rule);
