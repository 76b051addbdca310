import type { Operation, Replies } from '../../engine/backends/backend.ts';
import { type CounterKey, inOnePiece } from '../../engine/backends/key.ts';
import { isReservation, longestMemoryMs } from '../../engine/holds/limits.ts';
import type { ReservationReport } from '../../engine/holds/reports.ts';
import type { Lapse, Lapses, ReservationsContext } from '../../engine/ledger/reservations.ts';

interface OpenCounter {
  readonly settle: Operation;
  /** When the last reservation lapses. */
  dueMs: number;
  made: number;
  /** Own reservations that were neither committed nor have lapsed, less those of other instances that were committed here. */
  open: number;
}

/** Maximum number of counters; lapses of others are noticed by the next request of the counter. */
const MAX_COUNTERS = 10_000;
/** Maximum number of counters in a call, so that requests are not delayed. */
const SLICE = 32;
const TIMEOUT_MS = 1_000;
const INTERVAL_MS = 1_000;

/**
 * Follows the counters on which this process has made reservations, and charges those that have lapsed, if no request
 * of the counter does: they would be missing in usage and statistics.
 */
export class FollowedLapses implements Lapses {
  readonly #options: ReservationsContext;
  readonly #open = new Map<CounterKey, OpenCounter>();
  #listener: ((lapse: Lapse) => void) | undefined;
  #isRunning = false;
  #stop: (() => void) | undefined;

  constructor(options: ReservationsContext) {
    this.#options = options;
  }

  listen(listener: (lapse: Lapse) => void): void {
    this.#listener = listener;
  }

  note(request: readonly Operation[], replies: Replies): void {
    for (let at = 0; at < replies.length; at++) {
      const reply = replies[at];
      if (reply === undefined || reply.code === 'UNAVAILABLE' || reply.reservation === undefined) continue;
      this.#noteStep(request[at] as Operation, reply.reservation); // replies are in the order of the request
    }
  }

  drop(key: CounterKey): void {
    this.#open.delete(key);
  }

  close(): void {
    this.#stop?.();
    this.#stop = undefined;
  }

  /** Settles counters whose reservations have lapsed. */
  async #settle(): Promise<void> {
    if (this.#open.size === 0) return this.close();
    if (this.#isRunning) return;
    this.#isRunning = true;
    const nowMs = this.#options.monotonicMs();
    const due = [...this.#open.values()].filter(({ dueMs }) => dueMs <= nowMs);
    for (let from = 0; from < due.length; from += SLICE) await this.#settleAll(due.slice(from, from + SLICE));
    this.#isRunning = false;
  }

  #noteStep(operation: Operation, { event, lapsed, lapses, open }: ReservationReport): void {
    const { key, limit } = operation;
    if (!isReservation(limit)) return;
    const counter = this.#open.get(key) ?? (event === 'reserved' ? this.#add(operation) : undefined);
    if (counter && event === 'reserved') {
      counter.dueMs = this.#options.monotonicMs() + limit.ttlMs;
      counter.made++;
      counter.open++;
    }
    if (lapses > 0) this.#report(counter, { key, limit, hits: lapsed, count: lapses, isUnnoticed: false });
    if (counter && event === 'committed') counter.open--;
    if (counter && counter.open <= 0 && open === 0) this.#open.delete(key);
  }

  #add({ key, shared, limit, metered }: Operation): OpenCounter | undefined {
    if (this.#open.size >= MAX_COUNTERS) return undefined;
    const own = inOnePiece(key);
    const settle = { kind: 'charge', key: own, shared, limit, hits: 0, blocks: false, metered } as const;
    const counter = { settle, dueMs: 0, made: 0, open: 0 };
    this.#open.set(own, counter);
    this.#stop ??= this.#options.every(INTERVAL_MS, () => void this.#settle());
    return counter;
  }

  async #settleAll(counters: readonly OpenCounter[]): Promise<void> {
    const operations = counters.map(({ settle }) => settle);
    const replies = await this.#options.run(operations, { spend: 'each', timeoutMs: TIMEOUT_MS });
    const nowMs = this.#options.monotonicMs();
    for (const [at, counter] of counters.entries()) {
      const { key, limit } = counter.settle;
      const reply = replies[at];
      if (!isReservation(limit) || reply === undefined) continue;
      if (reply.code === 'UNAVAILABLE') {
        if (nowMs > counter.dueMs + longestMemoryMs(limit)) this.#open.delete(key);
        continue;
      }
      const { lapsed = 0, lapses = 0 } = reply.reservation ?? {};
      if (lapses > 0) this.#report(counter, { key, limit, hits: lapsed, count: lapses, isUnnoticed: true });
      if (counter.dueMs <= nowMs) this.#open.delete(key);
    }
  }

  #report(counter: OpenCounter | undefined, lapse: Omit<Lapse, 'made'>): void {
    const made = Math.max(counter?.made ?? 0, lapse.count);
    if (counter) {
      counter.open = Math.max(counter.open - lapse.count, 0);
      counter.made = counter.open;
    }
    this.#listener?.({ ...lapse, made });
  }
}
