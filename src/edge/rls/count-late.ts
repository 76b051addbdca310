import type { Decider } from '../../engine/decide/decide.ts';
import { requestDebits } from '../../engine/decide/plan.ts';
import { fullCapacity, isRateLimit } from '../../engine/holds/limits.ts';
import type { Debit } from '../../engine/ledger/debit.ts';
import { decodeRequest } from '../wire/codec.ts';
import type { WireRequest } from '../wire/wire.ts';

/** Timeout of the store, for which no caller waits. */
const TIMEOUT_MS = 1_000;

/** Counts the hits of equal requests that were not decided in time. Never throws. */
type CountLate = (request: WireRequest, times: number) => void;

/**
 * Charges each limit with the hits of all requests together, at most its capacity. Requests without an answer take no
 * slots or reservations, but those that they release or commit by id are.
 */
export const createCountLate =
  (decider: Decider): CountLate =>
  (request, times) => {
    let debits: readonly Debit[];
    try {
      debits = requestDebits(decodeRequest(request), decider);
    } catch {
      return; // the request is invalid or too costly, and would not have been counted in time either
    }
    const charges = debits.flatMap((debit) => toCharges(debit, times));
    if (charges.length > 0) void decider.ledger.debit(charges, { spend: 'each', timeoutMs: TIMEOUT_MS });
  };

function toCharges(debit: Debit, times: number): readonly Debit[] {
  const { kind, limit } = debit;
  const divisible = isRateLimit(limit);
  if (kind === 'peek' || (kind === 'spend' && !divisible)) return [];
  if (!divisible) return [debit];
  const hits = Math.min(debit.hits * times, fullCapacity(limit));
  return [{ ...debit, hits, kind: kind === 'spend' ? 'charge' : kind }];
}
