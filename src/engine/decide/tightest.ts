import type { Decision, LimitPolicy } from '../algorithms/limit.ts';

/**
 * Limits that may refuse come before those in shadow mode, and a rule's own before those of other rules; of two
 * refusals, an ordinary limit's before a quota's; then the tighter limit.
 */
export function goesBefore(policy: LimitPolicy, decision: Decision, other: LimitPolicy, ofOther: Decision): boolean {
  if (policy.shadow !== other.shadow) return other.shadow === true;
  if (policy.watches !== other.watches && decision.code === ofOther.code) return other.watches === true;
  const areRefusals = decision.code === 'OVER_LIMIT' && ofOther.code === 'OVER_LIMIT';
  if (areRefusals && policy.quota !== other.quota) return other.quota === true;
  return isTighter(decision, ofOther);
}

/** Refused before passed, then the longer wait, then soft before not, then fewer hits left. */
function isTighter(one: Decision, other: Decision): boolean {
  if (one.code !== other.code) return one.code === 'OVER_LIMIT';
  if (one.retryAfterMs !== other.retryAfterMs) return one.retryAfterMs > other.retryAfterMs;
  if (one.soft !== other.soft) return one.soft;
  return one.limitRemaining < other.limitRemaining;
}
