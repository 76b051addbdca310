import type { Clock } from '../../base/clock.ts';
import type { Pool } from '../../engine/rules/match/strategy.ts';
import { type Share, type ShareReport, type ShareState, type ShareTerms, stepShares } from './shares.ts';

/** A report of one holder of a pool. */
export interface PoolReport {
  /** Identifies the pool in the store. */
  readonly key: string;
  readonly pool: Pool;
  readonly report: ShareReport;
}

/** The store could not accept the report. */
interface SharesUnavailable {
  readonly reason: string;
}

/** A share to be sent, if any. */
export type ShareReply = Share | SharesUnavailable | undefined;

/** Stores pools. Each report is one atomic step on its pool, on the store's clock. */
export interface ShareStore {
  /** The number of a pool's holders that a step processes in this process. */
  holders(key: string): number;
  /** Replies in the order of the reports. Never rejects. */
  step(reports: readonly PoolReport[]): Promise<readonly ShareReply[]>;
}

/** Bytes of a pool and of each of its holders, besides the key of the pool. */
const POOL_BYTES = 440;
const HOLDER_BYTES = 240;
/** The number of pools checked for expiry in each step. */
const CHECKED_POOLS = 2;

interface KeptPool {
  readonly state: ShareState;
  readonly untilMs: number;
  readonly bytes: number;
}

/** Assumes two bytes per character of the key. */
const poolBytes = (key: string, state: ShareState): number => POOL_BYTES + 2 * key.length + HOLDER_BYTES * state.length;

/** Pools in this process, lost on restart. */
export class MemoryShares implements ShareStore {
  readonly #clock: Clock;
  readonly #terms: ShareTerms;
  readonly #maxBytes: number;
  readonly #pools = new Map<string, KeptPool>();
  #bytes = 0;

  #round = this.#pools.entries();

  /** @param maxBytes  memory for all pools; reports that need more are refused */
  constructor(clock: Clock, terms: ShareTerms, maxBytes: number) {
    this.#clock = clock;
    this.#terms = terms;
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    return this.#pools.size;
  }

  /** The memory charged for all pools. */
  get bytes(): number {
    return this.#bytes;
  }

  holders(key: string): number {
    return this.#pools.get(key)?.state.length ?? 0;
  }

  async step(reports: readonly PoolReport[]): Promise<readonly ShareReply[]> {
    const nowMs = this.#clock();
    return reports.map((report) => this.#stepOne(report, nowMs));
  }

  #stepOne({ key, pool, report }: PoolReport, nowMs: number): ShareReply {
    const kept = this.#pools.get(key);
    const before = kept && kept.untilMs > nowMs ? kept : undefined;
    this.#expire(nowMs);
    const { state, share, ttlMs } = stepShares(before?.state, report, { pool, terms: this.#terms, nowMs });
    if (ttlMs <= 0) {
      this.#forget(key);
      return share;
    }
    const bytes = poolBytes(key, state);
    const more = bytes - (this.#pools.get(key)?.bytes ?? 0);
    if (more > 0 && this.#bytes + more > this.#maxBytes)
      return { reason: `the shares of proxies use all of RLQS_MAX_BYTES (${this.#maxBytes})` };
    this.#bytes += more;
    this.#pools.set(key, { state, bytes, untilMs: nowMs + ttlMs });
    return share;
  }

  #forget(key: string): void {
    this.#bytes -= this.#pools.get(key)?.bytes ?? 0;
    this.#pools.delete(key);
  }

  /** Checks a few pools in each step, in rotation. */
  #expire(nowMs: number): void {
    for (let checked = 0; checked < CHECKED_POOLS; checked++) {
      const { value } = this.#round.next();
      if (!value) {
        this.#round = this.#pools.entries();
        return;
      }
      const [key, { untilMs }] = value;
      if (untilMs <= nowMs) this.#forget(key);
    }
  }
}
