import type { every, Monotonic } from '../../base/clock.ts';
import type { Eventual } from '../../base/later.ts';
import type { Operation, Reply, RunOptions } from '../backends/backend.ts';
import type { CounterKey } from '../backends/key.ts';
import type { Debit, KeptForCounters, LedgerEntry } from './debit.ts';

/** Answers hits of limits with `consistency: leased` from blocks that it has debited from the counter before. */
export interface Leases extends KeptForCounters {
  /** Hits that are leased now and unused: limits may admit fewer hits by at most this number. */
  readonly leased: number;
  /** Answers synchronously, if enough hits are leased. */
  spend(debit: Debit): LedgerEntry | undefined;
  /** Answers within the time, from a block or from the counter. */
  answer(debit: Debit, timeoutMs: number): Promise<Reply>;
  /** A copy of the leases of these counters, which requests hits through `run`. */
  copyCounters(keys: Iterable<CounterKey>, run: LeasesContext['run']): Leases;
  /** Refunds everything; waits for blocks in flight. */
  close(): Promise<void>;
}

/** What leases use of their ledger. */
export interface LeasesContext {
  readonly monotonicMs: Monotonic;
  /** Runs one operation on the counter. */
  readonly run: (operation: Operation, how: RunOptions) => Eventual<Reply>;
  /** Whether changes by other instances arrive; while they do not, no hits are leased. */
  readonly isLive: () => boolean;
  readonly every: typeof every;
}

export type OpenLeases = (context: LeasesContext) => Leases;

/** Peeks and give-backs use the counter itself. */
export const isLeased = ({ policy, kind }: Debit): boolean => policy.consistency === 'leased' && kind === 'spend';
