import type { Limit } from '../algorithms/limit.ts';
import { formatLine } from './problem.ts';
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
export const describeRule = (rule: Rule): string => linesOf(rule).join('\n');

/** The same with all that decides, and where it stands: names, `replaces`, `unlimited`, file and line. */
export function describeRuleFully(rule: Rule): string {
  const { limits, unlimited, replaces, named, place } = rule;
  const ofRule = [
    ...(unlimited ? ['unlimited: true'] : []),
    ...(replaces.length > 0 ? [`replaces: ${replaces.join(' ')}`] : []),
    ...(named === 'by_request' ? ['detailed_metric: true'] : []),
    ...(place ? [`at: ${formatLine(place)}`] : []),
  ];
  return linesOf(rule)
    .map((line, at) => {
      const name = limits[at]?.name ?? '';
      return [line, ...(name === '' ? [] : [`name: ${name}`]), ...ofRule].join(', ');
    })
    .join('\n');
}

/** A line a limit. */
function linesOf({ path, limits, shadow, quota }: Rule): readonly string[] {
  if (limits.length === 0) return [`${path}: unit=UNKNOWN requests_per_unit=0, ${modesOf({ shadow, quota })}`];
  return limits.map((limit) => {
    const { unit, requestsPerUnit } = limit;
    return [`${path}: unit=${unit} requests_per_unit=${requestsPerUnit}`, modesOf(limit), ...more(limit)].join(', ');
  });
}

/** A rule for programs; the keys are those of rule files. */
export function ruleAsJson({
  domain,
  path,
  place,
  unlimited,
  limits,
  shadow,
  quota,
  replaces,
  metadata,
}: Rule): object {
  return {
    domain,
    path,
    ...(place && { file: place.file, ...(place.line !== undefined && { line: place.line }) }),
    ...(unlimited && { unlimited, shadow_mode: shadow, quota_mode: quota }),
    ...(replaces.length > 0 && { replaces }),
    ...(metadata && { metadata }),
    limits: limits.map(limitAsJson),
  };
}

function limitAsJson(limit: Limit): object {
  const { name, algorithm, unit, unitMultiplier, windowMs, requestsPerUnit, soft, shadow, quota } = limit;
  const { onStoreFailure, localShare, consistency } = limit;
  return {
    ...(name !== '' && { name }),
    algorithm,
    ...(unit !== 'UNKNOWN' && { unit: unit.toLowerCase(), unit_multiplier: unitMultiplier }),
    window_ms: windowMs,
    requests_per_unit: requestsPerUnit,
    soft,
    shadow_mode: shadow ?? false,
    quota_mode: quota ?? false,
    ...numbersOf(limit),
    on_store_failure: onStoreFailure ?? 'error',
    ...(localShare !== undefined && { local_share: localShare }),
    consistency: consistency ?? 'strict',
  };
}

function numbersOf(limit: Limit): object {
  switch (limit.algorithm) {
    case 'fixed_window':
      if (typeof limit.alignment === 'string') return { alignment: limit.alignment };
      return { alignment: 'calendar', timezone: limit.alignment.timeZone };
    case 'sliding_window_log':
      return { count_denied: limit.countDenied };
    case 'sliding_window_counter':
      return { rounding: limit.rounding };
    case 'sliding_window_buckets':
      return { buckets: limit.buckets };
    case 'token_bucket':
      return { burst: limit.burst, refill: limit.refill, max_delay_ms: limit.maxDelayMs };
    case 'leaky_bucket':
      return { burst: limit.burst, max_delay_ms: limit.maxDelayMs };
  }
}

const modesOf = ({ shadow = false, quota = false }: { readonly shadow?: boolean; readonly quota?: boolean }): string =>
  `shadow_mode: ${shadow}, quota_mode: ${quota}`;

/** What a limit has beyond the ordinary, as rule files say it. */
function more(limit: Limit): readonly string[] {
  const { unit, unitMultiplier, windowMs, soft, onStoreFailure, localShare, consistency } = limit;
  return [
    ...(unitMultiplier === 1 ? [] : [`unit_multiplier: ${unitMultiplier}`]),
    ...(unit === 'UNKNOWN' ? [`window: ${windowMs}ms`] : []),
    ...ofAlgorithm(limit),
    ...(soft > 0 ? [`soft: ${soft}`] : []),
    ...(onStoreFailure ? [`on_store_failure: ${onStoreFailure}`] : []),
    ...(consistency ? [`consistency: ${consistency}`] : []),
    ...(localShare ? [`local_share: ${localShare}`] : []),
  ];
}

function ofAlgorithm(limit: Limit): readonly string[] {
  const algorithm = `algorithm: ${limit.algorithm}`;
  switch (limit.algorithm) {
    case 'fixed_window':
      if (limit.alignment === 'epoch') return [];
      if (typeof limit.alignment === 'string') return [`alignment: ${limit.alignment}`];
      return ['alignment: calendar', `timezone: ${limit.alignment.timeZone}`];
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
