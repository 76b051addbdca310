import type { Limit } from '../algorithms/index.ts';
import type { LimitPolicy } from '../algorithms/limit.ts';
import { kindOf, type RequestOperation } from '../backends/backend.ts';
import type { Counter } from '../backends/key.ts';

/** What a request asks of one counter, and what its rule decides around that. */
export interface Debit extends RequestOperation {
  readonly policy: LimitPolicy;
}

/** A limit as a rule has it, as far as counting goes. */
interface Counted {
  readonly limit: Limit;
  readonly policy: LimitPolicy;
}

/**
 * What a request asks of a counter.
 *
 * @param hits     whole, as Envoy writes them: 0 peeks, a negative number gives hits back
 * @param charges  whatever the limit says, the hits are charged
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
