import type { Limit } from '../algorithms/limit.ts';
import type { Rule } from './tree.ts';

/** A limit for people: `5 per minute`, `10 per 30 seconds by token_bucket`. */
export function describeLimit({ algorithm, requestsPerUnit, unit, unitMultiplier, windowMs }: Limit): string {
  const unitName = unit.toLowerCase();
  const window =
    unit === 'UNKNOWN' ? `${windowMs} ms` : unitMultiplier === 1 ? unitName : `${unitMultiplier} ${unitName}s`;
  return `${requestsPerUnit} per ${window}${algorithm === 'fixed_window' ? '' : ` by ${algorithm}`}`;
}

/**
 * A rule as envoyproxy/ratelimit lists it, a line a limit: `demo.user: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false`;
 * what it has no words for follows.
 */
export function describeRule({ path, limits, shadow, quota }: Rule): string {
  const modes = `shadow_mode: ${shadow}, quota_mode: ${quota}`;
  if (limits.length === 0) return `${path}: unit=UNKNOWN requests_per_unit=0, ${modes}`;
  const lines = limits.map((limit) => {
    const { unit, requestsPerUnit } = limit;
    return [`${path}: unit=${unit} requests_per_unit=${requestsPerUnit}`, modes, ...more(limit)].join(', ');
  });
  return lines.join('\n');
}

/** What a limit has beyond the ordinary, as rule files say it. */
function more(limit: Limit): readonly string[] {
  const { unit, unitMultiplier, windowMs, soft, onStoreFailure, localShare, consistency, charge } = limit;
  return [
    ...(unitMultiplier === 1 ? [] : [`unit_multiplier: ${unitMultiplier}`]),
    ...(unit === 'UNKNOWN' ? [`window: ${windowMs}ms`] : []),
    ...ofAlgorithm(limit),
    ...(soft > 0 ? [`soft: ${soft}`] : []),
    ...(onStoreFailure ? [`on_store_failure: ${onStoreFailure}`] : []),
    ...(charge ? [`charge: ${charge}`] : []),
    ...(consistency ? [`consistency: ${consistency}`] : []),
    ...(localShare ? [`local_share: ${localShare}`] : []),
  ];
}

function ofAlgorithm(limit: Limit): readonly string[] {
  const algorithm = `algorithm: ${limit.algorithm}`;
  switch (limit.algorithm) {
    case 'fixed_window':
      if (limit.alignment === 'epoch') return [];
      return [`alignment: ${typeof limit.alignment === 'string' ? limit.alignment : 'calendar'}`];
    case 'sliding_window_log':
      return [algorithm, ...(limit.countDenied ? ['count_denied: true'] : [])];
    case 'sliding_window_counter':
      return [algorithm, ...(limit.rounding === 'up' ? ['rounding: up'] : [])];
    case 'sliding_window_buckets':
      return [algorithm, `buckets: ${limit.buckets}`];
    case 'token_bucket':
    case 'leaky_bucket': {
      const isByInterval = 'refill' in limit && limit.refill === 'interval';
      const { burst, maxDelayMs } = limit;
      return [
        algorithm,
        `burst: ${burst}`,
        ...(isByInterval ? ['refill: interval'] : []),
        ...(maxDelayMs > 0 ? [`max_delay: ${maxDelayMs}ms`] : []),
      ];
    }
  }
}
