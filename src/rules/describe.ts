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
    const { algorithm, unit, unitMultiplier, windowMs, requestsPerUnit } = limit;
    const more = [
      ...(unitMultiplier === 1 ? [] : [`unit_multiplier: ${unitMultiplier}`]),
      ...(unit === 'UNKNOWN' ? [`window: ${windowMs}ms`] : []),
      ...(algorithm === 'fixed_window' ? [] : [`algorithm: ${algorithm}`]),
    ];
    return [`${path}: unit=${unit} requests_per_unit=${requestsPerUnit}`, modes, ...more].join(', ');
  });
  return lines.join('\n');
}
