import type { NearestTexts } from '../../../base/nearest.ts';
import type { RequestWork } from '../../../base/request-work.ts';
import { describeRulePlace } from './describe.ts';
import type { Descriptor, StopReason } from './match.ts';
import { findStop, search } from './stop.ts';
import type { Rule, RuleTree } from './tree.ts';

/** Why a descriptor matches its rule, or none. */
interface Explanation {
  /** The matched rule; absent if none matches, or the limit came with the request. */
  readonly rule?: Rule;
  /** Why no rule matches. */
  readonly reason?: StopReason;
  /** One line of text in the terms of a trace; it contains text from callers. */
  readonly text: string;
}

/** Bounds that several explanations share. */
interface ExplainBounds {
  /** Bounds the texts that are compared. Default: for this descriptor alone. */
  readonly nearest?: NearestTexts;
  /** Bounds the patterns that are tried. Default: unbounded. */
  readonly work?: RequestWork;
}

/**
 * Explains which rule a descriptor matches, or where its search ends without one.
 *
 * @throws TooCostly
 */
export function explain(
  rules: RuleTree,
  domain: string,
  descriptor: Descriptor,
  { nearest, work }: ExplainBounds = {},
): Explanation {
  const found = search(rules, domain, descriptor, work);
  const stopped = findStop(found, nearest);
  if (stopped) return { reason: stopped.reason, text: stopped.why };
  if (descriptor.requestLimit || !('rule' in found.found)) return { text: 'the limit of the request itself' };
  const { rule } = found.found;
  return { rule, text: `rule ${describeRulePlace(rule)}` };
}
