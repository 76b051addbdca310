import { algorithmFor, capacityOf } from '../algorithms/index.ts';
import type { Debit } from '../ledger/debit.ts';
import { type Decider, debitsOf, type RateLimitRequest } from './decide.ts';

/** How long the store may take: no caller waits. */
const TIMEOUT_MS = 1_000;

/**
 * Charges each limit with the hits of equal requests that were not decided in time, at most its capacity. Slots and
 * reservations are not taken for requests without an answer; those that are released or committed by id are.
 *
 * @throws TooCostly
 * @throws InvalidRequest
 */
export function chargeLate(request: RateLimitRequest, times: number, decider: Decider): void {
  const charges = debitsOf(request, decider).flatMap((debit): readonly Debit[] => {
    const { kind, limit } = debit;
    const isDivisible = algorithmFor(limit).divide !== undefined;
    if (kind === 'peek' || (kind === 'spend' && !isDivisible)) return [];
    if (!isDivisible) return [debit];
    const hits = Math.min(debit.hits * times, capacityOf(limit));
    return [{ ...debit, hits, kind: kind === 'spend' ? 'charge' : kind }];
  });
  if (charges.length > 0) void decider.ledger.debit(charges, { spend: 'each', timeoutMs: TIMEOUT_MS });
}
