import type { Clock } from '../../src/base/clock.ts';
import type { Backend } from '../../src/engine/backends/backend.ts';
import { Ledger } from '../../src/engine/ledger/ledger.ts';
import { fakeClock } from './clock.ts';

type LedgerOptions = ConstructorParameters<typeof Ledger>[1];

/** A ledger that caches, leases and counts nothing by itself, unless `changes` say so. It sets no timers. */
export const ledgerOf = (main: Backend, changes: Partial<LedgerOptions> = {}): Ledger =>
  new Ledger(
    { main },
    {
      ...{ clock: fakeClock(), monotonicMs: () => performance.now(), instance: 'test', denyCacheBytes: 0 },
      every: () => () => {},
      ...changes,
    },
  );

/** A ledger's timers, which run only on command. */
export interface ManualTimers {
  readonly every: LedgerOptions['every'];
  /** Runs each timer once, and waits for the work that it starts. */
  runOnce(): Promise<void>;
  /** The number of timers that run. */
  count(): number;
}

export function manualTimers(): ManualTimers {
  const timers = new Set<() => void>();
  return {
    every: (_, run) => {
      timers.add(run);
      return () => timers.delete(run);
    },
    async runOnce() {
      for (const run of timers) run();
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
    },
    count: () => timers.size,
  };
}

/** A ledger that counts locally if the backend cannot, and settles those counts when its timers run. */
export const settlingLedger = (main: Backend, clock: Clock, changes: Partial<LedgerOptions>): Ledger =>
  ledgerOf(main, {
    ...{ clock, monotonicMs: clock, local: { maxCounters: 100, maxBytes: 1_000_000, instances: () => 1 } },
    ...changes,
  });

/** A backend with scripted answers. */
export const backendThat = (run: Backend['run'], changes: Partial<Backend> = {}): Backend => ({
  atomic: 'request',
  run,
  shardOf: () => '',
  settle: async () => true,
  fork: () => {
    throw new TypeError('this backend has no counters to copy');
  },
  health: () => ({ ready: true }),
  close: async () => {},
  ...changes,
});
