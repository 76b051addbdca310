import { DEFAULT_ALGORITHM } from '../../algorithms/index.ts';
import { showCount } from '../../algorithms/money.ts';
import { algorithmFor, isShared, namedAlgorithm } from '../../holds/limits.ts';
import type { RuleLimit } from './tree.ts';

/** A limit in words: `5 per minute`, `10 per 30 seconds by token_bucket`. */
export function describeLimit({ limit, label }: Pick<RuleLimit, 'limit' | 'label'>): string {
  const { requestsPerUnit, windowMs } = limit;
  const algorithm = namedAlgorithm(limit);
  const { unit, unitMultiplier, replicas } = label;
  const unitName = unit.toLowerCase();
  const window =
    unit === 'UNKNOWN' ? `${windowMs} ms` : unitMultiplier === 1 ? unitName : `${unitMultiplier} ${unitName}s`;
  const by = algorithm === DEFAULT_ALGORITHM ? '' : ` by ${algorithm}`;
  const parts = replicas
    ? ` (${replicas.each} for each of ${replicas.count} replica${replicas.count === 1 ? '' : 's'})`
    : '';
  const rate = `${showCount(limit, requestsPerUnit)} per ${window}${by}${parts}`;
  const words = algorithmFor(limit).words?.(limit, rate) ?? rate;
  return `${words}${words.includes(parts) ? '' : parts}${isShared(limit) ? ', shared' : ''}`;
}
