import { createStoreBudget } from '../../../src/engine/ledger/store-budget.ts';

test.each([
  { callerMs: 20, lateMs: 0, longestMs: undefined, budgetMs: 15 },
  { callerMs: 20, lateMs: 12, longestMs: undefined, budgetMs: 8 },
  { callerMs: 20, lateMs: 60, longestMs: undefined, budgetMs: -40 },
  { callerMs: 1_000, lateMs: 60, longestMs: undefined, budgetMs: 750 },
  { callerMs: 10_000, lateMs: 0, longestMs: undefined, budgetMs: 1_000 },
  { callerMs: Number.POSITIVE_INFINITY, lateMs: 60, longestMs: undefined, budgetMs: 250 },
  { callerMs: 10_000, lateMs: 0, longestMs: 5_000, budgetMs: 5_000 },
  { callerMs: 20, lateMs: 0, longestMs: 5_000, budgetMs: 15 },
  { callerMs: Number.POSITIVE_INFINITY, lateMs: 0, longestMs: 15, budgetMs: 15 },
])(
  'of $callerMs ms, $lateMs ms late, STORE_TIMEOUT $longestMs: $budgetMs ms',
  ({ callerMs, lateMs, longestMs, budgetMs }) => {
    expect(createStoreBudget(() => lateMs, longestMs)(callerMs)).toBe(budgetMs);
  },
);
