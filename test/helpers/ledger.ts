import type { Backend } from '../../src/backends/backend.ts';
import { Ledger, type LedgerOptions } from '../../src/ledger/ledger.ts';
import { fakeClock } from './clock.ts';

/** A ledger that remembers, leases and counts nothing by itself, but for the changes; nothing happens in it by time alone. */
export const ledgerOf = (main: Backend, changes: Partial<LedgerOptions> = {}): Ledger =>
  new Ledger(
    { main },
    {
      ...{ clock: fakeClock(), monotonicMs: () => performance.now(), instance: 'test', denyCacheBytes: 0 },
      every: () => () => {},
      ...changes,
    },
  );

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
