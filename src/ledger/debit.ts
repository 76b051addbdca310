import type { Limit } from '../algorithms/index.ts';
import type { LimitPolicy } from '../algorithms/limit.ts';
import { operationOf, type RequestOperation } from '../backends/backend.ts';
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
 * @param hits     whole, as Envoy writes them: 0 peeks, below 0 gives back
 * @param charges  whatever the limit says, the hits are charged
 */
export function debitOf(
  counter: Counter,
  { limit, policy }: Counted,
  hits: number,
  blocks: boolean,
  charges = false,
): Debit {
  const { kind, key, shared, hits: count } = operationOf(counter, limit, hits, blocks, charges);
  return { kind, key, shared, limit, hits: count, blocks, policy };
}
