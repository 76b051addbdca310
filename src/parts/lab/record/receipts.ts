import type { Decider } from '../../../engine/decide/decide.ts';

/** Has stores with a clock of their own report the time of each charge. @param isWanted  default: always */
export const withReceipts = (decider: Decider, isWanted = () => true): Decider => ({
  ...decider,
  ledger: {
    debit: (debits, how) => decider.ledger.debit(debits, isWanted() ? { ...how, receipts: true } : how),
    recall: (debits, spend) => decider.ledger.recall?.(debits, spend),
  },
});
