import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createEstimates } from '../../../src/engine/ledger/estimates.ts';

const KEY = 'k' as CounterKey; // any key will do

test('the estimate, from the twentieth amount on, is the 95th percentile by nearest rank', () => {
  const estimates = createEstimates();
  for (let amount = 1; amount <= 19; amount++) estimates.note(KEY, amount);
  expect(estimates.of(KEY)).toBeUndefined();
  estimates.note(KEY, 1_000);
  expect(estimates.of(KEY)).toBe(19);
  estimates.note(KEY, 1_000);
  expect(estimates.of(KEY)).toBe(1_000);
});

test('the last 128 amounts of a counter are kept', () => {
  const estimates = createEstimates();
  for (let times = 0; times < 128; times++) estimates.note(KEY, 9);
  for (let times = 0; times < 128; times++) estimates.note(KEY, 5);
  expect(estimates.of(KEY)).toBe(5);
});
