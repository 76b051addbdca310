import { MAX_COUNT } from '../../../src/engine/algorithms/limit.ts';
import { amountUnder } from '../../../src/engine/decide/priced.ts';
import { fixedWindowOf, reservationOf } from '../../helpers/limits.ts';

test.each([
  [5_000, 5_000],
  [MAX_COUNT, 100_000],
  [-MAX_COUNT, -100_000],
])('a request for %d hits under a limit of 1000 counts %d', (hits, counted) => {
  const limit = fixedWindowOf(1_000, 60_000);
  expect(amountUnder(limit, { hits })).toBe(counted);
  expect(amountUnder(reservationOf(limit), { hits })).toBe(counted);
});
