import type { every, Monotonic } from '../../base/clock.ts';
import type { Eventual } from '../../base/later.ts';
import type { Operation, Replies, RunOptions } from '../backends/backend.ts';
import type { CounterKey } from '../backends/key.ts';
import type { Limit } from '../holds/limits.ts';
import type { Reserving } from '../holds/reserving.ts';
import type { Debit, KeptForCounters } from './debit.ts';

/** Reservations of one counter that were not committed within their ttl. */
export interface Lapse {
  readonly key: CounterKey;
  readonly limit: Limit & Reserving;
  readonly hits: number;
  /** How many have lapsed, and how many this process has made since the last ones did. */
  readonly count: number;
  readonly made: number;
  /** Whether no request has noticed it. */
  readonly isUnnoticed: boolean;
}

/** Follows the counters on which this process has made reservations. */
export interface Lapses extends KeptForCounters {
  listen(listener: (lapse: Lapse) => void): void;
  /** Call with the replies to a request. */
  note(request: readonly Operation[], replies: Replies): void;
  close(): void;
}

/** Counts of commits that the store could not accept. */
export interface CommitCounts {
  /** Kept now, to be sent again. */
  readonly pending: number;
  /** Accepted by the store later, since the start. */
  readonly sent: number;
  /** Lost since the start, for being too old or for lack of room. */
  readonly dropped: number;
}

/** Keeps commits that the store could not accept, and resends them until it does. */
export interface PendingCommits extends KeptForCounters {
  counts(): CommitCounts;
  /** Keeps the commits of a request that were not answered. @param calledAtMs  when the store was called */
  keep(request: readonly Debit[], replies: Replies, calledAtMs: number): void;
  /** Sends pending commits while the store accepts them; must be called repeatedly. */
  send(): Promise<void>;
  close(): Promise<void>;
}

/** What reservations use of their ledger. */
export interface ReservationsContext {
  readonly monotonicMs: Monotonic;
  /** Runs operations on the backends; never rejects. */
  readonly run: (operations: readonly Operation[], how: RunOptions) => Eventual<Replies>;
  readonly every: typeof every;
}

/** Opens what a ledger keeps for reservations. */
export interface OpenReservations {
  readonly lapses: (context: ReservationsContext) => Lapses;
  readonly pendingCommits: (context: Omit<ReservationsContext, 'every'>) => PendingCommits;
}
