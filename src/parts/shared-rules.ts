import type { Rule } from '../engine/rules/match/tree.ts';
import type { Block } from '../engine/rules/read/block.ts';
import type { Problems } from '../engine/rules/read/problem.ts';
import { shareRules } from './fair-shares/read-share.ts';

/** What is known of the node above one with `share`. */
interface SharingParent {
  readonly rule: Rule | undefined;
  /** The number of entries down to it. */
  readonly depth: number;
  /** It shares its limit, validly or not. */
  readonly shares: boolean;
}

/** What a node has of the limit that it shares. */
type ChildRule = Pick<Rule, 'limits' | 'shadow' | 'quota' | 'sharedBelow'>;

interface SharedRules {
  /** Undefined if it is invalid, for which `problems` has the reason. */
  buildChild(block: Block<'node'>, parent: SharingParent, problems: Problems): ChildRule | undefined;
  /** The same rule, with what nodes below reserve of its limit, if they share it. */
  withReserved(block: Block<'node'>, rule: Rule, problems: Problems): Rule;
}

/** Functions that build the rules of nodes which share a limit. */
export const sharedRules: Readonly<Record<string, SharedRules>> = {
  'fair-shares': shareRules,
};
