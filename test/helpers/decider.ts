import type { Decider } from '../../src/decide.ts';
import type { RuleTree } from '../../src/rules/tree.ts';
import { createCounterKeys, ownCounters } from '../../src/stores/key.ts';
import { createMemoryStore } from '../../src/stores/memory.ts';
import { fakeClock } from './clock.ts';

/** What decides by these rules, on counters in memory and a clock that stands still, in no mode: but for the changes. */
export const deciderOf = (rules: RuleTree, changes: Partial<Decider> = {}): Decider => ({
  rules: () => rules,
  store: createMemoryStore(fakeClock(), { maxCounters: 1_000 }),
  counters: ownCounters(createCounterKeys('')),
  storeTimeoutMs: 500,
  shadowMode: false,
  quotaMode: false,
  spend: 'each',
  ...changes,
});
