import type { Monotonic } from '../../base/clock.ts';
import { type Decision, NEVER_MS } from '../algorithms/limit.ts';
import type { CounterKey } from '../backends/key.ts';
import { algorithmFor, fullCapacity, isSameLimit, type Limit, waitForMoreMs } from '../holds/limits.ts';
import type { Debit, KeptForCounters, LedgerEntry } from './debit.ts';

interface RefusalsOptions {
  readonly monotonicMs: Monotonic;
  /** Approximate memory for the entries. */
  readonly maxBytes: number;
  /** Whether changes by other instances arrive; while they do not, refusals are only valid for `UNCONFIRMED_MS`. */
  readonly isLive: () => boolean;
  /** It is the local cache, which an operator has switched on. */
  readonly isLocalCache: boolean;
}

/** The call that a counter refused. */
interface RefusingCall {
  /** The hits, unless it was a peek, were passed to the counter, independent of the other limits. */
  readonly isCharged: boolean;
  /** On the monotonic clock. */
  readonly calledAtMs: number;
}

/** All times are of the monotonic clock. */
interface Remembered {
  /** The limit that refused: under another limit the same counter may have room. */
  limit: Limit;
  readonly sinceMs: number;
  /** The number of its refusals by the store, one after another. */
  readonly times: number;
  /** Until this time refusals can be repeated: no hit passes before it. */
  readonly untilMs: number;
  /** When a single hit passes: not before `untilMs`. */
  readonly passesAtMs: number;
  readonly resetAtMs: number;
  /** The counter is above the limit, so that even a peek is refused. */
  readonly isAbove: boolean;
}

/** Whether a refusal that was given so long ago can be repeated. */
type IsValid = (sinceMs: number, known: Remembered) => boolean;

/** Approximate bytes of an entry besides its key's characters: the map's slot, the refusal, the strings' headers. */
const ENTRY_BYTES = 200;

const NO_COUNTS = { lookups: 0, hits: 0, expired: 0, evicted: 0, overwritten: 0 };

/** How long a refusal is valid while other instances may give hits back unnoticed. */
const UNCONFIRMED_MS = 1_000;

/** Refusals of a counter after which its requests are a burst, which the store need not refuse one by one. */
const BURST_REFUSALS = 16;

/** Longer than any backend call: a reply that is older than a change of its counter is not remembered. */
const CHANGE_KEPT_MS = 60_000;
const MAX_CHANGES = 10_000;

/**
 * Repeats a counter's refusals without a call, until a single hit could pass again according to the counter's last
 * reply. That time is measured from the start of the call, so it is never too long. Hits given back, here or by another
 * instance, drop the refusal. The oldest entries make room for new ones, however recently they were used, since a
 * refusal loses value with age; so a plain map is enough.
 */
export class Refusals implements KeptForCounters {
  readonly #options: RefusalsOptions;
  readonly #remembered = new Map<CounterKey, Remembered>();
  /** The time of each counter's last change that may have made room. */
  readonly #changes = new Map<CounterKey, number>();
  #allChangedAtMs = Number.NEGATIVE_INFINITY;
  #bytes = 0;
  /** Refusals up to this time hold whatever the store answers. */
  #heldUpToMs = Number.NEGATIVE_INFINITY;
  /** Lookups and their hits; entries that expired, were dropped for lack of room, and were replaced before they expired. */
  readonly counts = { ...NO_COUNTS };

  constructor(options: RefusalsOptions) {
    this.#options = options;
  }

  resetCounts(): void {
    Object.assign(this.counts, NO_COUNTS);
  }

  /** The number of refusals remembered now. */
  size(): number {
    return this.#remembered.size;
  }

  /** A copy of the remembered refusals of these counters. */
  copyCounters(keys: Iterable<CounterKey>): Refusals {
    const copy = new Refusals(this.#options);
    for (const key of keys) {
      const known = this.#remembered.get(key);
      if (known) copy.#remembered.set(key, { ...known });
    }
    return copy;
  }

  /** The refusal of a debit, if it is certain. */
  find(debit: Debit): LedgerEntry | undefined {
    this.counts.lookups++;
    const decision = this.#find(
      debit,
      (sinceMs, known) => sinceMs < UNCONFIRMED_MS || this.#options.isLive() || this.#isHeld(known),
    );
    if (decision) this.counts.hits++;
    return decision;
  }

  /** The refusal of a debit that the store has confirmed within the last second, or that is held. */
  findRecent(debit: Debit): LedgerEntry | undefined {
    return this.#find(debit, (sinceMs, known) => sinceMs < UNCONFIRMED_MS || this.#isHeld(known));
  }

  /** The same, if the counter has refused so often that these requests are a burst, or if the refusal is held. */
  findInBurst(debit: Debit): LedgerEntry | undefined {
    return this.#find(
      debit,
      (sinceMs, known) => (known.times >= BURST_REFUSALS && sinceMs < UNCONFIRMED_MS) || this.#isHeld(known),
    );
  }

  /** The store may have lost its counters: repeats all refusals up to now until they end. */
  hold(): void {
    this.#heldUpToMs = this.#options.monotonicMs();
  }

  /** The store has kept its counters. */
  release(): void {
    this.#heldUpToMs = Number.NEGATIVE_INFINITY;
  }

  #isHeld({ sinceMs }: Remembered): boolean {
    return sinceMs <= this.#heldUpToMs;
  }

  /** The refusal of a debit that the backend cannot count: others may have given hits back since. */
  recall(debit: Debit): LedgerEntry | undefined {
    return this.#find(debit, () => true);
  }

  #find({ kind, key, limit, hits, policy }: Debit, isValid: IsValid): LedgerEntry | undefined {
    if (this.#remembered.size === 0) return undefined; // the common case
    if (kind === 'give_back' || kind === 'charge' || policy.charge === 'always') return undefined;
    const known = this.#remembered.get(key);
    if (!known) return undefined;
    const nowMs = this.#options.monotonicMs();
    if (known.untilMs <= nowMs) {
      this.counts.expired++;
      this.#forget(key);
      return undefined;
    }
    if (!isValid(nowMs - known.sinceMs, known)) return undefined;
    if (known.limit !== limit) {
      if (!isSameLimit(counted(known.limit), counted(limit))) return undefined;
      if (known.limit.above === limit.above) known.limit = limit; // the next comparison is by identity
    }
    if (hits === 0 && !known.isAbove) return undefined;
    const shown = policy.watches ? { ...known, passesAtMs: known.untilMs } : known; // only its block refuses here
    return refused(shown, hits, nowMs, this.#options.isLocalCache);
  }

  /**
   * Remembers a counter's refusal.
   *
   * @param debit  the only one of its request on this counter
   */
  remember(debit: Debit, decision: Decision, { isCharged, calledAtMs }: RefusingCall): void {
    const { kind, key, limit, hits } = debit;
    if (kind === 'charge') return; // each refusal extends the wait
    if (Math.max(this.#changes.get(key) ?? this.#allChangedAtMs, this.#allChangedAtMs) >= calledAtMs) return;
    const charged = isCharged && kind !== 'peek';
    // limits without it may have room again at any time
    const holdsMs = algorithmFor(limit).refusalHoldsMs?.(limit, { decision, hits, charged: charged && hits > 0 }) ?? 0;
    if (holdsMs <= 0) return;
    const known = this.#remembered.get(key);
    const untilMs = calledAtMs + holdsMs;
    if (debit.policy.watches && known && known.limit.above === undefined && known.untilMs >= untilMs) return; // it says more
    if (known) this.counts.overwritten++;
    this.#forget(key); // a replaced entry becomes the newest
    const resetMs = decision.durationUntilResetMs;
    const isAbove = charged || hits === 0;
    this.#remembered.set(key, {
      limit,
      sinceMs: calledAtMs,
      times: (known?.times ?? 0) + 1,
      untilMs,
      passesAtMs: calledAtMs + Math.max(holdsMs, hits > 1 ? 0 : Math.min(decision.retryAfterMs, resetMs)),
      resetAtMs: calledAtMs + resetMs,
      isAbove,
    });
    this.#bytes += refusalBytes(key);
    if (this.#bytes <= this.#options.maxBytes) return; // even the first step of an iteration passes all deleted entries
    for (const oldest of this.#remembered.keys()) {
      if (this.#bytes <= this.#options.maxBytes) break;
      this.counts.evicted++;
      this.#forget(oldest);
    }
  }

  /** The counter may have room again, which also applies to replies in flight. */
  drop(key: CounterKey): void {
    this.#forget(key);
    const nowMs = this.#options.monotonicMs();
    this.#changes.delete(key);
    this.#changes.set(key, nowMs); // the newest is last
    for (const [oldest, atMs] of this.#changes) {
      if (atMs > nowMs - CHANGE_KEPT_MS && this.#changes.size <= MAX_CHANGES) break;
      if (atMs > nowMs - CHANGE_KEPT_MS) this.#allChangedAtMs = Math.max(this.#allChangedAtMs, atMs);
      this.#changes.delete(oldest);
    }
  }

  /**
   * Forgets everything that is not held, since changes by other instances may have been missed. Replies to calls that
   * began up to now, in the same millisecond as well, are not remembered.
   */
  clear(): void {
    this.#allChangedAtMs = this.#options.monotonicMs();
    this.#changes.clear();
    for (const [key, known] of this.#remembered) if (!this.#isHeld(known)) this.#forget(key);
  }

  #forget(key: CounterKey): void {
    if (this.#remembered.delete(key)) this.#bytes -= refusalBytes(key);
  }
}

/** The limit of a counter, without the rule that watches its blocks. */
const counted = ({ above: _, ...limit }: Limit): Limit => limit as Limit; // one of the same kind

const refusalBytes = (key: CounterKey): number => ENTRY_BYTES + key.length;

function refused(
  { limit, passesAtMs: singleAtMs, resetAtMs }: Remembered,
  hits: number,
  nowMs: number,
  isLocalCache: boolean,
): LedgerEntry {
  const capacity = fullCapacity(limit);
  const moreMs = hits > 1 ? waitForMoreMs(limit, hits - 1) : 0;
  const passesAtMs = moreMs === undefined ? resetAtMs : Math.min(singleAtMs + moreMs, Math.max(resetAtMs, singleAtMs));
  return {
    code: 'OVER_LIMIT',
    hitsBefore: capacity,
    limitRemaining: 0,
    durationUntilResetMs: Math.max(Math.ceil(resetAtMs - nowMs), 0),
    retryAfterMs: hits > capacity ? NEVER_MS : Math.ceil(passesAtMs - nowMs),
    delayMs: 0,
    soft: false,
    fromCache: true,
    ...(isLocalCache && { fromLocalCache: true }),
  };
}
