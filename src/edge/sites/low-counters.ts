import type { Monotonic } from '../../base/clock.ts';
import type { Reply } from '../../engine/backends/backend.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { nominalCapacity } from '../../engine/holds/limits.ts';
import type { SiteShareLimit } from '../../engine/holds/site-share.ts';
import type { Debit } from '../../engine/ledger/debit.ts';

/** A counter that is running low at its site. */
export interface LowCounter {
  readonly key: CounterKey;
  readonly limit: SiteShareLimit;
  /** Hits that were refused here since the last check. */
  refused: number;
  /** When an exchange last read it, or when it became low. */
  checkedAtMs: number;
  lowAtMs: number;
  /** By place: the hits taken from each site, as far as that site knows. */
  readonly confirmed: Confirmed[];
  /** By place: the hits that each site had used, by its last answer. */
  readonly uses: (KnownUse | undefined)[];
}

/** The hits that another site had used in an epoch, by its last answer; on the monotonic clock. */
interface KnownUse {
  readonly epochMs: number;
  readonly used: number;
  readonly atMs: number;
}

/** Taken hits are counted from 0 in each epoch, and after a reset of the counter. */
interface Confirmed {
  readonly epochMs: number;
  readonly taken: number;
}

/** A counter is low below this fraction of its base. */
const LOW_PART = 1 / 4;
/** Counters stay low for this long, so that hits are requested as soon as a window begins. */
const LOW_MS = 10_000;
/** Counters beyond this number cannot borrow: they have only their base. */
const MAX_COUNTERS = 10_000;

const lowCounterOf = (key: CounterKey, limit: SiteShareLimit, nowMs: number): LowCounter => ({
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
    if (limit.algorithm !== 'site_share' || kind === 'give_back' || !reply || reply.code === 'UNAVAILABLE')
      return false;
    const isOver = reply.code === 'OVER_LIMIT';
    if (!isOver && (kind === 'peek' || reply.limitRemaining >= nominalCapacity(limit) * LOW_PART)) return false;
    const known = this.#byKey.get(key);
    if (!known && this.#byKey.size >= MAX_COUNTERS) return false;
    const nowMs = this.#monotonicMs();
    const counter = known?.limit === limit ? known : lowCounterOf(key, limit, nowMs);
    counter.lowAtMs = nowMs;
    if (isOver && kind !== 'charge') counter.refused += Math.max(hits, 1); // a refused peek of 0 counts as 1
    if (counter !== known) this.#byKey.set(key, counter);
    return true;
  }

  /** The counters that are low, or were recently. */
  all(): readonly LowCounter[] {
    const sinceMs = this.#monotonicMs() - LOW_MS;
    for (const [key, { lowAtMs }] of this.#byKey) if (lowAtMs < sinceMs) this.#byKey.delete(key);
    return [...this.#byKey.values()];
  }
}
