import type { Limit } from '../algorithms/index.ts';
import type { LimitPolicy } from '../algorithms/limit.ts';
import { kindOf, type RequestOperation } from '../backends/backend.ts';
import type { Counter } from '../backends/key.ts';

/** An operation of a request on one counter, with the policy of its rule. */
export interface Debit extends RequestOperation {
  readonly policy: LimitPolicy;
}

/** The part of a rule's limit that counting needs. */
interface Counted {
  readonly limit: Limit;
  readonly policy: LimitPolicy;
}

/**
 * The operation of a request on a counter.
 *
 * @param hits     an integer, as Envoy sends it: 0 peeks, a negative number gives hits back
 * @param charges  the hits are charged, even beyond the limit
 */
export function debitOf(
  { key, shared }: Counter,
  { limit, policy }: Counted,
  hits: number,
  blocks: boolean,
  charges = false,
): Debit {
  return { kind: kindOf(hits, charges), key, shared, limit, hits: Math.abs(hits), blocks, policy };
}
