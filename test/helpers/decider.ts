import { createCounterKeys, ownCounters } from '../../src/backends/key.ts';
import { createMemoryBackend } from '../../src/backends/memory/backend.ts';
import type { Decider } from '../../src/decide.ts';
import type { RuleTree } from '../../src/rules/tree.ts';
import { fakeClock } from './clock.ts';
import { ledgerOf } from './ledger.ts';

/** What decides by these rules, on counters in memory and a clock that stands still, in no mode: but for the changes. */
export const deciderOf = (rules: RuleTree, changes: Partial<Decider> = {}): Decider => ({
  rules: () => rules,
  ledger: ledgerOf(createMemoryBackend(fakeClock(), { maxCounters: 1_000 })),
  counters: ownCounters(createCounterKeys('')),
  clock: fakeClock(),
  storeTimeoutMs: 500,
  shadowMode: false,
  quotaMode: false,
  spend: 'each',
  ...changes,
});
