import type { Clock } from '../clock.ts';
import { type Pool, type Share, type ShareReport, type ShareState, type ShareTerms, stepShares } from './shares.ts';

/** A report of one holder of a pool. */
export interface PoolReport {
  /** Names the pool in the store. */
  readonly key: string;
  readonly pool: Pool;
  readonly report: ShareReport;
}

/** The store could not take the report. */
export interface SharesUnavailable {
  readonly reason: string;
}

/** A share to be sent; undefined: nothing is. */
export type ShareReply = Share | SharesUnavailable | undefined;

/** Keeps pools. Each report is one atomic step on its pool, decided on the clock of the store. */
export interface ShareStore {
  /** Replies in the order of the reports. Never rejects. */
  step(reports: readonly PoolReport[]): Promise<readonly ShareReply[]>;
}

/** More pools than this are not kept in memory. */
const MAX_POOLS = 131_072;
/** Pools that are checked for expiry in each step. */
const CHECKED_POOLS = 2;

/** Pools in this process: gone on restart. */
export class MemoryShares implements ShareStore {
  readonly #clock: Clock;
  readonly #terms: ShareTerms;
  readonly #pools = new Map<string, { readonly state: ShareState; readonly untilMs: number }>();

  #round = this.#pools.entries();

  constructor(clock: Clock, terms: ShareTerms) {
    this.#clock = clock;
    this.#terms = terms;
  }

  get size(): number {
    return this.#pools.size;
  }

  async step(reports: readonly PoolReport[]): Promise<readonly ShareReply[]> {
    const nowMs = this.#clock();
    return reports.map((report) => this.#stepOne(report, nowMs));
  }

  #stepOne({ key, pool, report }: PoolReport, nowMs: number): ShareReply {
    const kept = this.#pools.get(key);
    const before = kept && kept.untilMs > nowMs ? kept : undefined;
    this.#expire(nowMs);
    if (!kept && this.#pools.size >= MAX_POOLS) return { reason: `more than ${MAX_POOLS} buckets are in use` };
    const { state, share, ttlMs } = stepShares(pool, this.#terms, before?.state, nowMs, report);
    if (ttlMs > 0) this.#pools.set(key, { state, untilMs: nowMs + ttlMs });
    else this.#pools.delete(key);
    return share;
  }

  /** Goes round all pools, a few in each step. */
  #expire(nowMs: number): void {
    for (let checked = 0; checked < CHECKED_POOLS; checked++) {
      const { value } = this.#round.next();
      if (!value) {
        this.#round = this.#pools.entries();
        return;
      }
      const [key, { untilMs }] = value;
      if (untilMs <= nowMs) this.#pools.delete(key);
    }
  }
}
