import { algorithmFor, capacityOf, isSameLimit, type Limit } from '../algorithms/index.ts';
import { type Decision, NEVER_MS } from '../algorithms/limit.ts';
import type { CounterKey } from '../backends/key.ts';
import type { Monotonic } from '../clock.ts';
import type { Debit } from './debit.ts';

/** What a memory of refusals holds and has done. */
export interface DenyCacheState {
  readonly counts: DenyCacheCounts;
  /** Refusals that are remembered now. */
  size(): number;
}

/** What became of the lookups, since the start. */
export interface DenyCacheCounts {
  readonly lookups: number;
  readonly hits: number;
  /** Forgotten since their time was over, and for want of room. */
  readonly expired: number;
  readonly evicted: number;
  /** Remembered anew while they still were. */
  readonly overwritten: number;
}

export interface RefusalsOptions {
  readonly monotonicMs: Monotonic;
  /** About what the entries may take. */
  readonly maxBytes: number;
  /** Whether changes of other instances arrive; while they do not, refusals are believed only for `UNCONFIRMED_MS`. */
  readonly isLive: () => boolean;
}

/** All times are of the monotonic clock. */
interface Remembered {
  /** The limit that refused: under another one the same counter may have room. */
  limit: Limit;
  readonly sinceMs: number;
  /** No hit passes before. */
  readonly untilMs: number;
  readonly resetAtMs: number;
  /** The counter stands above the limit, so that even a peek is refused. */
  readonly isAbove: boolean;
}

/** What an entry takes besides its key's characters, about: the map's slot, the refusal, the strings' heads. */
const ENTRY_BYTES = 200;

/** For how long a refusal is believed while other instances may give hits back without its being known here. */
export const UNCONFIRMED_MS = 1_000;

/** Longer than any call of a backend lasts: a reply that is older than a change of its counter is not remembered. */
const CHANGE_KEPT_MS = 60_000;
const MAX_CHANGES = 10_000;

/**
 * Refuses what a counter has refused before, without asking it, until a single hit could pass again by what the counter
 * said then: counted from when it was asked, so never a moment too long. What is given back, here or by another
 * instance, makes it forget. The oldest entries make room for new ones.
 */
export class Refusals implements DenyCacheState {
  readonly #options: RefusalsOptions;
  readonly #remembered = new Map<CounterKey, Remembered>();
  /** When counters were changed last in a way that may make room. */
  readonly #changes = new Map<CounterKey, number>();
  #allChangedAtMs = Number.NEGATIVE_INFINITY;
  #bytes = 0;
  readonly counts = { lookups: 0, hits: 0, expired: 0, evicted: 0, overwritten: 0 };

  constructor(options: RefusalsOptions) {
    this.#options = options;
  }

  size(): number {
    return this.#remembered.size;
  }

  /** A copy of what is remembered of these counters. */
  copyOf(keys: Iterable<CounterKey>): Refusals {
    const copy = new Refusals(this.#options);
    for (const key of keys) {
      const known = this.#remembered.get(key);
      if (known) copy.#remembered.set(key, { ...known });
    }
    return copy;
  }

  /** The refusal of a debit, where one is certain. */
  find({ kind, key, limit, hits }: Debit): Decision | undefined {
    this.counts.lookups++;
    if (kind === 'give_back' || kind === 'charge') return undefined;
    const known = this.#remembered.get(key);
    if (!known) return undefined;
    const nowMs = this.#options.monotonicMs();
    if (known.untilMs <= nowMs) {
      this.counts.expired++;
      this.#forget(key);
      return undefined;
    }
    if (nowMs - known.sinceMs >= UNCONFIRMED_MS && !this.#options.isLive()) return undefined;
    if (known.limit !== limit) {
      if (!isSameLimit(known.limit, limit)) return undefined;
      known.limit = limit; // the next comparison is one of identity
    }
    if (hits === 0 && !known.isAbove) return undefined;
    this.counts.hits++;
    return refused(limit, hits, known, nowMs);
  }

  /**
   * Remembers a refusal of a counter.
   *
   * @param debit      the only one of its request on this counter
   * @param isCharged  hits of no peek were offered to the counter, whatever became of the other limits
   * @param askedMs    when the counter was asked
   */
  remember(debit: Debit, decision: Decision, isCharged: boolean, askedMs: number): void {
    const { kind, key, limit, hits } = debit;
    if (kind === 'charge') return; // each refusal makes the wait longer
    if (Math.max(this.#changes.get(key) ?? this.#allChangedAtMs, this.#allChangedAtMs) >= askedMs) return;
    const charged = isCharged && kind !== 'peek';
    const holdsMs = algorithmFor(limit).refusalHoldsMs(limit, { decision, hits, charged: charged && hits > 0 });
    if (holdsMs <= 0) return;
    if (this.#remembered.has(key)) this.counts.overwritten++;
    this.#forget(key); // what is remembered anew is the newest
    const resetAtMs = askedMs + decision.durationUntilResetMs;
    const isAbove = charged || hits === 0;
    this.#remembered.set(key, { limit, sinceMs: askedMs, untilMs: askedMs + holdsMs, resetAtMs, isAbove });
    this.#bytes += bytesOf(key);
    for (const oldest of this.#remembered.keys()) {
      if (this.#bytes <= this.#options.maxBytes) break;
      this.counts.evicted++;
      this.#forget(oldest);
    }
  }

  /** The counter may have room again; so may it for replies that are on their way. */
  changed(key: CounterKey): void {
    this.#forget(key);
    const nowMs = this.#options.monotonicMs();
    this.#changes.delete(key);
    this.#changes.set(key, nowMs); // the newest is the last
    for (const [oldest, atMs] of this.#changes) {
      if (atMs > nowMs - CHANGE_KEPT_MS && this.#changes.size <= MAX_CHANGES) break;
      if (atMs > nowMs - CHANGE_KEPT_MS) this.#allChangedAtMs = Math.max(this.#allChangedAtMs, atMs);
      this.#changes.delete(oldest);
    }
  }

  /** Changes of other instances may have been missed: nothing that was learnt before is certain. */
  clear(): void {
    this.#allChangedAtMs = this.#options.monotonicMs();
    this.#changes.clear();
    this.#remembered.clear();
    this.#bytes = 0;
  }

  #forget(key: CounterKey): void {
    if (this.#remembered.delete(key)) this.#bytes -= bytesOf(key);
  }
}

const bytesOf = (key: CounterKey): number => ENTRY_BYTES + key.length;

function refused(limit: Limit, hits: number, { untilMs, resetAtMs }: Remembered, nowMs: number): Decision {
  const capacity = capacityOf(limit);
  const moreMs = hits > 1 ? algorithmFor(limit).waitForMoreMs?.(limit, hits - 1) : 0;
  const passesAtMs = moreMs === undefined ? resetAtMs : Math.min(untilMs + moreMs, Math.max(resetAtMs, untilMs));
  return {
    code: 'OVER_LIMIT',
    hitsBefore: capacity,
    limitRemaining: 0,
    durationUntilResetMs: Math.max(Math.ceil(resetAtMs - nowMs), 0),
    retryAfterMs: hits > capacity ? NEVER_MS : Math.ceil(passesAtMs - nowMs),
    delayMs: 0,
    soft: false,
    fromCache: true,
  };
}
