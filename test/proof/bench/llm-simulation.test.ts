import '../../helpers/realm.ts';
import { simulate } from '../../../proof/bench/llm-simulation.ts';

test('an adaptive estimate refuses less than a flat one, and overspends less than charging at the end', () => {
  const [adaptive, flat, atEnd] = (['p95', 5_000, 'charge at the end'] as const).map((policy) =>
    simulate(30_000, policy),
  );
  if (!adaptive || !flat || !atEnd) throw new Error('there are three');
  expect(adaptive.refused).toBeLessThan(flat.refused);
  expect(adaptive.refusedInVain).toBeLessThan(flat.refusedInVain);
  expect(adaptive.maxOverspent).toBeLessThan(0.1);
  expect(atEnd.maxOverspent).toBeGreaterThan(0.2);
  expect(atEnd.refusedInVain).toBe(0);
  expect(simulate(2_000, 'p95')).toEqual(simulate(2_000, 'p95'));
});
