import { type Decider, debitsOf } from '../../engine/decide/decide.ts';
import { capacityOf, isRateLimit } from '../../engine/holds/limits.ts';
import type { Debit } from '../../engine/ledger/debit.ts';
import { decodeRequest } from '../../engine/wire/codec.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';

/** How long the store may take: no caller waits. */
const TIMEOUT_MS = 1_000;

/** Counts the hits of equal requests that were not decided in time. Never throws. */
type CountLate = (request: WireRequest, times: number) => void;

/**
 * Charges each limit with the hits of all requests together, at most its capacity. Slots and reservations are not taken
 * for requests without an answer; those that are released or committed by id are.
 */
export const createCountLate =
  (decider: Decider): CountLate =>
  (request, times) => {
    let debits: readonly Debit[];
    try {
      debits = debitsOf(decodeRequest(request), decider);
    } catch {
      return; // the request is invalid or too costly, and would not have been counted in time either
    }
    const charges = debits.flatMap((debit) => chargesOf(debit, times));
    if (charges.length > 0) void decider.ledger.debit(charges, { spend: 'each', timeoutMs: TIMEOUT_MS });
  };

function chargesOf(debit: Debit, times: number): readonly Debit[] {
  const { kind, limit } = debit;
  const divisible = isRateLimit(limit);
  if (kind === 'peek' || (kind === 'spend' && !divisible)) return [];
  if (!divisible) return [debit];
  const hits = Math.min(debit.hits * times, capacityOf(limit));
  return [{ ...debit, hits, kind: kind === 'spend' ? 'charge' : kind }];
}
