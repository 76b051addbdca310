import { nominalCapacity } from '../algorithms/index.ts';
import type { SiteShareLimit } from '../algorithms/site-share.ts';
import type { Reply } from '../backends/backend.ts';
import type { CounterKey } from '../backends/key.ts';
import type { Monotonic } from '../clock.ts';
import type { Debit } from '../ledger/debit.ts';

/** A counter whose site has little left of it. */
export interface LowCounter {
  readonly key: CounterKey;
  readonly limit: SiteShareLimit;
  /** Hits that were refused here since the last check. */
  refused: number;
  /** When an exchange read it last, or when it became low. */
  checkedAtMs: number;
  lowAtMs: number;
  /** What each site knows that was taken from it, by its place. */
  readonly confirmed: Confirmed[];
  /** What each site said last that it had used, by its place. */
  readonly uses: (KnownUse | undefined)[];
}

/** What another site had used in an epoch, by its last answer; on the monotonic clock. */
export interface KnownUse {
  readonly epochMs: number;
  readonly used: number;
  readonly atMs: number;
}

/** What was taken counts from 0 again in each epoch, and where a counter is reset. */
interface Confirmed {
  readonly epochMs: number;
  readonly taken: number;
}

/** Below this part of its base a counter is low. */
const LOW_PART = 1 / 4;
/** Counters stay low for so long, so that windows that begin are asked for at once. */
const LOW_MS = 10_000;
/** Further counters have to do with their base. */
const MAX_COUNTERS = 10_000;

const lowCounterOf = (key: CounterKey, limit: SiteShareLimit, nowMs: number): LowCounter => ({
  ...{ key, limit, refused: 0, checkedAtMs: nowMs, lowAtMs: nowMs, confirmed: [], uses: [] },
});

/** The counters of shared limits for which this process asks other sites. */
export class LowCounters {
  readonly #monotonicMs: Monotonic;
  readonly #byKey = new Map<CounterKey, LowCounter>();

  constructor(monotonicMs: Monotonic) {
    this.#monotonicMs = monotonicMs;
  }

  get size(): number {
    return this.#byKey.size;
  }

  /** Keeps in mind a counter that is low after its debit. @returns whether it is */
  note({ key, limit, hits, kind }: Debit, reply: Reply | undefined): boolean {
    if (limit.algorithm !== 'site_share' || kind === 'give_back' || !reply || reply.code === 'UNAVAILABLE')
      return false;
    const isOver = reply.code === 'OVER_LIMIT';
    if (!isOver && (kind === 'peek' || reply.limitRemaining >= nominalCapacity(limit) * LOW_PART)) return false;
    const known = this.#byKey.get(key);
    if (!known && this.#byKey.size >= MAX_COUNTERS) return false;
    const nowMs = this.#monotonicMs();
    const counter = known?.limit === limit ? known : lowCounterOf(key, limit, nowMs);
    counter.lowAtMs = nowMs;
    if (isOver && kind !== 'charge') counter.refused += Math.max(hits, 1); // a peek of 0 asks for room
    if (counter !== known) this.#byKey.set(key, counter);
    return true;
  }

  /** Those that are low, or were a short time ago. */
  all(): readonly LowCounter[] {
    const sinceMs = this.#monotonicMs() - LOW_MS;
    for (const [key, { lowAtMs }] of this.#byKey) if (lowAtMs < sinceMs) this.#byKey.delete(key);
    return [...this.#byKey.values()];
  }
}
