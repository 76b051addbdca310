import type { Monotonic } from '../../base/clock.ts';
import type { Reply } from '../../engine/backends/backend.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { nominalCapacity } from '../../engine/holds/limits.ts';
import type { Debit } from '../../engine/ledger/debit.ts';
import { isSiteShare, type SiteShareLimit } from './site-share.ts';

/** A counter that is running low at its site. */
export interface LowCounter {
  readonly key: CounterKey;
  readonly limit: SiteShareLimit;
  /** Hits refused here since the last check. */
  refused: number;
  /** Time when an exchange last read it, or when it became low. */
  checkedAtMs: number;
  lowAtMs: number;
  /** Hits taken from each site since its epoch or a reset began, by place, as far as that site knows. */
  readonly confirmed: { readonly epochMs: number; readonly taken: number }[];
  /** Hits that each site had used by its last answer, by place. */
  readonly uses: (KnownUse | undefined)[];
}

/** Hits that another site had used in an epoch by its last answer, on the monotonic clock. */
interface KnownUse {
  readonly epochMs: number;
  readonly used: number;
  readonly atMs: number;
}

/** Fraction of its base below which a counter is low. */
const LOW_FRACTION = 1 / 4;
/** Time for which counters stay low, so that hits are requested as soon as a window begins. */
const LOW_MS = 10_000;
/** Maximum number of counters that can borrow; further ones have only their base. */
const MAX_COUNTERS = 10_000;

const createLowCounter = (key: CounterKey, limit: SiteShareLimit, nowMs: number): LowCounter => ({
  key,
  limit,
  refused: 0,
  checkedAtMs: nowMs,
  lowAtMs: nowMs,
  confirmed: [],
  uses: [],
});

/** The counters of shared limits for which this process requests hits from other sites. */
export class LowCounters {
  readonly #monotonicMs: Monotonic;
  readonly #byKey = new Map<CounterKey, LowCounter>();

  constructor(monotonicMs: Monotonic) {
    this.#monotonicMs = monotonicMs;
  }

  get size(): number {
    return this.#byKey.size;
  }

  /** Records a counter that is low after its debit. @returns whether it is recorded */
  note({ key, limit, hits, kind }: Debit, reply: Reply | undefined): boolean {
    if (!isSiteShare(limit) || kind === 'give_back' || !reply || reply.code === 'UNAVAILABLE') return false;
    const isOver = reply.code === 'OVER_LIMIT';
    if (!isOver && (kind === 'peek' || reply.limitRemaining >= nominalCapacity(limit) * LOW_FRACTION)) return false;
    const known = this.#byKey.get(key);
    if (!known && this.#byKey.size >= MAX_COUNTERS) return false;
    const nowMs = this.#monotonicMs();
    const counter = known?.limit === limit ? known : createLowCounter(key, limit, nowMs);
    counter.lowAtMs = nowMs;
    if (isOver && kind !== 'charge') counter.refused += Math.max(hits, 1); // a refused peek of 0 counts as 1
    if (counter !== known) this.#byKey.set(key, counter);
    return true;
  }

  all(): readonly LowCounter[] {
    const sinceMs = this.#monotonicMs() - LOW_MS;
    for (const [key, { lowAtMs }] of this.#byKey) if (lowAtMs < sinceMs) this.#byKey.delete(key);
    return [...this.#byKey.values()];
  }
}
