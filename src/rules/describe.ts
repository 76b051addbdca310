import { algorithmFor, DEFAULT_ALGORITHM } from '../algorithms/index.ts';
import type { Rule, RuleLimit } from './tree.ts';

/** A limit for people: `5 per minute`, `10 per 30 seconds by token_bucket`. */
export function describeLimit({ limit, label }: RuleLimit): string {
  const { algorithm, requestsPerUnit, windowMs } = limit;
  const { unit, unitMultiplier } = label;
  const unitName = unit.toLowerCase();
  const window =
    unit === 'UNKNOWN' ? `${windowMs} ms` : unitMultiplier === 1 ? unitName : `${unitMultiplier} ${unitName}s`;
  return `${requestsPerUnit} per ${window}${algorithm === DEFAULT_ALGORITHM ? '' : ` by ${algorithm}`}`;
}

/**
 * A rule as envoyproxy/ratelimit lists it, a line a limit: `demo.user: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false`;
 * what it has no words for follows.
 */
export function describeRule({ path, limits, shadow, quota }: Rule): string {
  const modes = `shadow_mode: ${shadow}, quota_mode: ${quota}`;
  if (limits.length === 0) return `${path}: unit=UNKNOWN requests_per_unit=0, ${modes}`;
  const lines = limits.map((one) => {
    const { limit, label } = one;
    return [`${path}: unit=${label.unit} requests_per_unit=${limit.requestsPerUnit}`, modes, ...more(one)].join(', ');
  });
  return lines.join('\n');
}

/** What a limit has beyond the ordinary, as rule files say it. */
function more({ limit, label, policy }: RuleLimit): readonly string[] {
  const { unit, unitMultiplier } = label;
  const { onStoreFailure, localShare, consistency, charge } = policy;
  const { algorithm, windowMs, soft } = limit;
  return [
    ...(unitMultiplier === 1 ? [] : [`unit_multiplier: ${unitMultiplier}`]),
    ...(unit === 'UNKNOWN' ? [`window: ${windowMs}ms`] : []),
    ...(algorithm === DEFAULT_ALGORITHM ? [] : [`algorithm: ${algorithm}`]),
    ...algorithmFor(limit).write(limit),
    ...(soft > 0 ? [`soft: ${soft}`] : []),
    ...(onStoreFailure ? [`on_store_failure: ${onStoreFailure}`] : []),
    ...(charge ? [`charge: ${charge}`] : []),
    ...(consistency ? [`consistency: ${consistency}`] : []),
    ...(localShare ? [`local_share: ${localShare}`] : []),
  ];
}
