import { take } from '../../base/slices.ts';
import type { Replies } from '../../engine/backends/backend.ts';
import { type CounterKey, inOnePiece } from '../../engine/backends/key.ts';
import { within } from '../../engine/backends/within.ts';
import { ANONYMOUS } from '../../engine/holds/claim.ts';
import { isReservation } from '../../engine/holds/limits.ts';
import { type Debit, keptBytes } from '../../engine/ledger/debit.ts';
import type { CommitCounts, PendingCommits, ReservationsContext } from '../../engine/ledger/reservations.ts';

interface PendingCommitsOptions extends Omit<ReservationsContext, 'every'> {
  /** Approximate memory for the commits. */
  readonly maxBytes?: number;
}

interface PendingCommit {
  readonly debit: Debit;
  /** After this time the store may not recognize the commit as counted, so it is not sent again. */
  readonly untilMs: number;
}

const MAX_BYTES = 4 * 1024 * 1024;
/** Maximum number of commits in a call, so that requests are not delayed. */
const SLICE = 64;
const TIMEOUT_MS = 1_000;
/** How long shutdown waits for the store. */
const CLOSE_WITHIN_MS = 1_000;

/**
 * Keeps commits that the store could not accept, and resends them until it does. The store counts each commit once, by
 * the id of its request, which it remembers for a ttl since it first counted it, at the earliest when it was called; a
 * commit is kept for a second less. Commits that are not sent by then, or for which there is no room, are lost.
 */
export class KeptCommits implements PendingCommits {
  readonly #options: PendingCommitsOptions;
  /** The oldest first, except for commits that failed again. */
  readonly #line = new Set<PendingCommit>();
  #bytes = 0;
  #sent = 0;
  #dropped = 0;
  #running: Promise<void> | undefined;

  constructor(options: PendingCommitsOptions) {
    this.#options = options;
  }

  counts(): CommitCounts {
    return { pending: this.#line.size, sent: this.#sent, dropped: this.#dropped };
  }

  keep(request: readonly Debit[], replies: Replies, calledAtMs: number): void {
    for (const [at, debit] of request.entries()) {
      if (replies[at]?.code !== 'UNAVAILABLE' || debit.kind !== 'spend') continue;
      const { limit, commits, holder = ANONYMOUS } = debit;
      if (!isReservation(limit) || !commits || holder === ANONYMOUS) continue; // would be counted twice
      this.#add(debit, calledAtMs + Math.max(limit.ttlMs - TIMEOUT_MS, limit.ttlMs / 2)); // it may arrive late
    }
  }

  send(): Promise<void> {
    this.#running ??= this.#sendAll().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Drops commits from before the counter was reset. */
  drop(key: CounterKey): void {
    for (const commit of this.#line) if (commit.debit.key === key) this.#remove(commit);
  }

  async close(): Promise<void> {
    if (this.#line.size > 0) await within(CLOSE_WITHIN_MS, this.send());
  }

  #add(debit: Debit, untilMs: number): void {
    const own = { ...debit, key: inOnePiece(debit.key) };
    const bytes = keptBytes(own);
    if (this.#bytes + bytes > (this.#options.maxBytes ?? MAX_BYTES)) {
      this.#dropped++;
      return;
    }
    this.#line.add({ debit: own, untilMs });
    this.#bytes += bytes;
  }

  async #sendAll(): Promise<void> {
    this.#expire(this.#line);
    while (this.#line.size > 0) {
      const first = [...take(SLICE, this.#line)];
      this.#expire(first);
      const slice = first.filter((commit) => this.#line.has(commit));
      if (slice.length === 0) continue;
      const replies = await this.#options.run(
        slice.map(({ debit }) => debit),
        { spend: 'each', timeoutMs: TIMEOUT_MS },
      );
      let isWhole = true;
      for (const [at, commit] of slice.entries()) {
        if (!this.#line.has(commit)) continue; // its counter was reset
        if (replies[at]?.code !== 'UNAVAILABLE') {
          this.#remove(commit);
          this.#sent++;
          continue;
        }
        isWhole = false;
        this.#line.delete(commit); // the next ones may be for another node of the store
        this.#line.add(commit);
      }
      if (!isWhole) return;
    }
  }

  #expire(commits: Iterable<PendingCommit>): void {
    const nowMs = this.#options.monotonicMs();
    for (const commit of commits) {
      if (commit.untilMs > nowMs) continue;
      this.#remove(commit);
      this.#dropped++;
    }
  }

  #remove(commit: PendingCommit): void {
    if (this.#line.delete(commit)) this.#bytes -= keptBytes(commit.debit);
  }
}
