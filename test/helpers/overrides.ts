import { type OverrideEffect, Overrides } from '../../src/engine/decide/overrides.ts';
import type { Entry } from '../../src/engine/rules/match/match.ts';
import { fakeClock } from './clock.ts';

const LIMIT: OverrideEffect = { kind: 'limit', requestsPerUnit: 1, unit: 'MINUTE' };

/** One override in force, by default of one hit a minute, for exactly these entries. */
export function overridesFor(domain: string, entries: readonly Entry[], effect = LIMIT): Overrides {
  const clock = fakeClock();
  const overrides = new Overrides(clock, () => 60_000);
  overrides.replace([{ domain, entries, effect, untilMs: clock() + 3_600_000, by: 'admin', reason: 'test' }]);
  return overrides;
}
