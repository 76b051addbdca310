import type { Descriptor } from './match.ts';
import { describeRulePlace } from './rule-place.ts';
import { type StopReason, search, stopOf } from './stop.ts';
import type { Rule, RuleTree } from './tree.ts';

/** Why a descriptor meets the rule that it meets, or none. */
export interface Explanation {
  /** Absent: none, or the limit came with the request. */
  readonly rule?: Rule;
  /** Why it meets none. */
  readonly reason?: StopReason;
  /** One line for people, in the words of a trace; it has texts of callers. */
  readonly text: string;
}

/** Explains which rule a descriptor meets, or where its search ends without one. */
export function explain(rules: RuleTree, domain: string, descriptor: Descriptor): Explanation {
  const found = search(rules, domain, descriptor);
  const stopped = stopOf(rules, domain, descriptor.entries, found);
  if (stopped) return { reason: stopped.reason, text: stopped.why };
  if (descriptor.requestLimit || !('rule' in found.found)) return { text: 'the limit of the request itself' };
  const { rule } = found.found;
  return { rule, text: `rule ${describeRulePlace(rule)}` };
}
