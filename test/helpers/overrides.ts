import { Overrides } from '../../src/engine/decide/overrides.ts';
import type { Entry } from '../../src/engine/rules/match/match.ts';
import { fakeClock } from './clock.ts';

/** One operator's limit in force, of one hit a minute, for exactly these entries. */
export function overridesFor(domain: string, entries: readonly Entry[]): Overrides {
  const clock = fakeClock();
  const overrides = new Overrides(clock, () => 60_000);
  const effect = { kind: 'limit', requestsPerUnit: 1, unit: 'MINUTE' } as const;
  overrides.replace([{ domain, entries, effect, untilMs: clock() + 3_600_000, by: 'admin', reason: 'test' }]);
  return overrides;
}
