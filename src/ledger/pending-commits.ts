import { algorithmFor } from '../algorithms/index.ts';
import type { Replies, RunOptions } from '../backends/backend.ts';
import { type CounterKey, inOnePiece, isWide, keyBytes } from '../backends/key.ts';
import { within } from '../backends/within.ts';
import type { Monotonic } from '../clock.ts';
import type { Eventual } from '../later.ts';
import type { Debit } from './debit.ts';

/** Commits that the store could not take. */
export interface CommitCounts {
  /** Kept now, to be sent again. */
  readonly pending: number;
  /** Taken by the store later, since the start. */
  readonly sent: number;
  /** Lost since the start: their time was over, or there was no room. */
  readonly dropped: number;
}

export interface PendingCommitsOptions {
  readonly monotonicMs: Monotonic;
  /** Runs commits on the backends; never rejects. */
  readonly run: (commits: readonly Debit[], how: RunOptions) => Eventual<Replies>;
  /** About what the commits may take. */
  readonly maxBytes?: number;
}

interface PendingCommit {
  readonly debit: Debit;
  /** From then on the store may have forgotten that it counted the commit: it is not sent again. */
  readonly untilMs: number;
}

const MAX_BYTES = 4 * 1024 * 1024;
/** The debit, its limit, and the place in the line. */
const COMMIT_BYTES = 336;
/** Commits of a call, so that requests are not held up. */
const SLICE = 64;
const TIMEOUT_MS = 1_000;
/** How long the end of the process waits for the store. */
const CLOSE_WITHIN_MS = 1_000;

/**
 * Keeps commits that the store could not take, and sends them again until it has. The store counts each
 * once, by the id of its request, and remembers that for a time: for so long a commit is kept. One that is not sent by
 * then, or for which there is no room, is lost.
 */
export class PendingCommits {
  readonly #options: PendingCommitsOptions;
  /** The oldest first, but for those that failed again. */
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

  /** Keeps the commits of a request that have no answer. */
  keep(request: readonly Debit[], replies: Replies): void {
    for (const [at, debit] of request.entries()) {
      if (replies[at]?.code !== 'UNAVAILABLE' || debit.kind !== 'spend') continue;
      const knownMs = algorithmFor(debit.limit).repeatableForMs?.(debit.limit) ?? 0;
      if (knownMs > 0) this.#add(debit, this.#options.monotonicMs() + knownMs);
    }
  }

  /** Sends what is pending, while the store takes it; to be called now and then. */
  send(): Promise<void> {
    this.#running ??= this.#sendAll().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** The counter is new: commits from before are void. */
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
    for (;;) {
      this.#expire();
      const slice = this.#first(SLICE);
      if (slice.length === 0) return;
      const replies = await this.#options.run(
        slice.map(({ debit }) => debit),
        { spend: 'each', timeoutMs: TIMEOUT_MS },
      );
      let isWhole = true;
      for (const [at, commit] of slice.entries()) {
        if (!this.#line.has(commit)) continue; // its counter was made new
        if (replies[at]?.code !== 'UNAVAILABLE') {
          this.#remove(commit);
          this.#sent++;
          continue;
        }
        isWhole = false;
        this.#line.delete(commit); // those behind may be for another node of the store
        this.#line.add(commit);
      }
      if (!isWhole) return;
    }
  }

  #first(count: number): readonly PendingCommit[] {
    const first: PendingCommit[] = [];
    for (const commit of this.#line) {
      if (first.length === count) break;
      first.push(commit);
    }
    return first;
  }

  #expire(): void {
    const nowMs = this.#options.monotonicMs();
    for (const commit of this.#line) {
      if (commit.untilMs > nowMs) continue;
      this.#remove(commit);
      this.#dropped++;
    }
  }

  #remove(commit: PendingCommit): void {
    if (this.#line.delete(commit)) this.#bytes -= keptBytes(commit.debit);
  }
}

/** About what keeping a debit takes. */
export const keptBytes = ({ key }: Debit): number => COMMIT_BYTES + keyBytes(key.length, isWide(key));
