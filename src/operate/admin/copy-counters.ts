import type { Debit } from '../../engine/ledger/debit.ts';
import type { Ledger, LedgerFork } from '../../engine/ledger/ledger.ts';

/** How long to wait for the store to answer again before the counters are read for the second time. */
const MAX_STORE_WAIT_MS = 1_000;

/**
 * Copies the counters of a request within the timeout of a call. If that fails, waits for the store to answer and tries
 * once more: a store that was slow for a moment would decide the next call; one that is always too slow, or
 * unreachable, would not.
 */
export async function copyCounters(
  request: readonly Debit[],
  ledger: Pick<Ledger, 'fork'>,
  timeoutMs: number,
): Promise<LedgerFork> {
  const copy = await ledger.fork(request, timeoutMs);
  if (request.every((debit) => copy.failureOf(debit) === undefined)) return copy;
  await ledger.fork(request, MAX_STORE_WAIT_MS);
  return ledger.fork(request, timeoutMs);
}
