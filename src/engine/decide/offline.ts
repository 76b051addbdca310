import type { Clock } from '../../base/clock.ts';
import { createCounterKeys, ownCounters } from '../backends/key.ts';
import { createMemoryBackend } from '../backends/memory/backend.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Decider } from './decide.ts';

/** The decisions of a service with new counters in memory, except for its rules. */
export function createOfflineDecider(
  clock: Clock,
  modes: Pick<Decider, 'shadowMode' | 'quotaMode' | 'spend'>,
  bounds: Parameters<typeof createMemoryBackend>[1],
) {
  const memory = createMemoryBackend(clock, bounds);
  const ledger = new Ledger(
    { main: memory },
    { clock, monotonicMs: clock, instance: 'offline', denyCacheBytes: 0, every: () => () => {} },
  );
  return { ...modes, memory, ledger, clock, counters: ownCounters(createCounterKeys('')), storeBudget: () => 0 };
}
