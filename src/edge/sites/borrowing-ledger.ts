import { intermittent } from '../../base/intermittent.ts';
import { after } from '../../base/later.ts';
import type { Operation } from '../../engine/backends/backend.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import { type Borrower, EXCHANGE_INTERVAL_MS } from './borrower.ts';
import type { LowCounters } from './low-counters.ts';

/** The part of a ledger that decisions use. */
export type DecidingLedger = Pick<Ledger, 'debit' | 'refund' | 'atomic'>;

/**
 * The same ledger; hits for counters that run low are borrowed from other sites. While no counter is low, nothing runs.
 */
export function borrowingLedger(
  ledger: DecidingLedger,
  low: LowCounters,
  borrower: Borrower,
): { readonly ledger: DecidingLedger; close(): Promise<void> } {
  let running: Promise<void> | undefined;
  const exchanges = intermittent(EXCHANGE_INTERVAL_MS, () => {
    const counters = low.all();
    running ??= borrower.exchange(counters).finally(() => {
      running = undefined;
    });
    return counters.length > 0;
  });
  const watched: DecidingLedger = {
    debit(request, how) {
      const entries = ledger.debit(request, how);
      if (!request.some(isShared)) return entries;
      return after(entries, (all) => {
        for (const [at, debit] of request.entries()) if (low.note(debit, all[at])) exchanges.wake();
        return all;
      });
    },
    refund: (receipt) => ledger.refund(receipt),
    atomic: ledger.atomic,
  };
  return {
    ledger: watched,
    async close() {
      exchanges.close();
      await running;
      await borrower.ended();
    },
  };
}

const isShared = ({ limit }: Pick<Operation, 'limit'>): boolean => limit.algorithm === 'site_share';
