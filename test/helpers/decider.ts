import { createCounterKeys, ownCounters } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import type { Decider } from '../../src/engine/decide/decide.ts';
import type { RuleTree } from '../../src/engine/rules/match/tree.ts';
import { fakeClock } from './clock.ts';
import { ledgerOf } from './ledger.ts';

/** A `Decider` for these rules, with counters in memory, a fake clock and no modes; `changes` override its defaults. */
export const deciderOf = (
  rules: RuleTree,
  changes: Partial<Decider> = {},
): Decider & Required<Pick<Decider, 'onWork'>> => ({
  onWork: () => {},
  rules: () => rules,
  ledger: ledgerOf(createMemoryBackend(fakeClock(), { maxCounters: 1_000 })),
  counters: ownCounters(createCounterKeys('')),
  clock: fakeClock(),
  storeBudget: () => 500,
  shadowMode: false,
  quotaMode: false,
  spend: 'each',
  ...changes,
});
