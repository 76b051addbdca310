import { MAX_COUNT } from '../../../src/engine/algorithms/limit.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createDebit } from '../../../src/engine/ledger/debit.ts';
import { usedDebit } from '../../../src/engine/ledger/estimates.ts';
import { fixedWindowOf, reservationOf } from '../../helpers/limits.ts';

test.each([
  [5_000, 5_000],
  [MAX_COUNT, 100_000],
])('%d hits that are charged or given back regardless of a limit of 1000 count %d', (hits, counted) => {
  const limit = reservationOf(fixedWindowOf(1_000, 60_000));
  const counter = { key: 'k' as CounterKey }; // as for a test alone
  expect(usedDebit(counter, { limit, policy: {} }, hits, undefined).hits).toBe(counted);
  expect(createDebit(counter, { limit, policy: {} }, -hits, false).hits).toBe(counted);
  expect(createDebit(counter, { limit, policy: {} }, hits, false, true).hits).toBe(counted);
  expect(createDebit(counter, { limit, policy: {} }, hits, true).hits).toBe(hits); // may be refused
});
