import { createHash } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { nominalCapacity, waitForMoreMs } from '../../engine/holds/limits.ts';
import type { Debit, Entries, LedgerEntry } from '../../engine/ledger/debit.ts';

/** A counter whose use has passed a share of its limit. */
export interface Crossing {
  /** Equal in all processes for the same share of the same counter in the same window. */
  readonly id: string;
  readonly key: CounterKey;
  readonly percent: number;
  readonly used: number;
  readonly atMs: number;
  /** When the hits come back, or may begin to. */
  readonly untilMs: number;
}

/** Maximum number of shares of counters that are remembered as passed; beyond it, the oldest may be passed again. */
const MAX_KNOWN = 10_000;

const MINUTE_MS = 60_000;

/** Maximum number of crossings between two calls of `take`; further ones are counted as dropped. */
const MAX_KEPT = 200;

/** Finds counters that pass a share of their limit: each share of a counter once in a window. */
export class Crossings {
  readonly #clock: Clock;
  /** When each share of a counter may be passed again. */
  readonly #known = new Map<string, number>();
  #kept: Crossing[] = [];
  #dropped = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param debits  of a request @param entries  the answers to them */
  note(debits: readonly Debit[], entries: Entries): void {
    for (let at = 0; at < debits.length; at++) {
      const debit = debits[at] as Debit; // in range
      const entry = entries[at];
      if (!debit.policy.notify || !entry || entry.code === 'UNAVAILABLE') continue;
      const { kind } = debit;
      if ((kind === 'spend' || kind === 'charge') && !entry.fromCache && !isByPolicy(entry)) this.#add(debit, entry);
    }
  }

  /** The crossings since the last call. */
  take(): { readonly crossings: readonly Crossing[]; readonly dropped: number } {
    const taken = { crossings: this.#kept, dropped: this.#dropped };
    this.#kept = [];
    this.#dropped = 0;
    return taken;
  }

  #add(debit: Debit, entry: LedgerEntry): void {
    const { key, limit, policy, hits } = debit;
    const capacity = nominalCapacity(limit);
    const used = capacity - Math.max(entry.limitRemaining, 0);
    for (const percent of policy.notify ?? []) {
      const share = (capacity * percent) / 100;
      // of several processes, the one whose hits pass the share; with a lease none knows what others have used
      const isPassed =
        entry.code === 'OVER_LIMIT' ? isFirstRefusal(hits, capacity) : policy.consistency || used - hits < share;
      if (used >= share && isPassed) this.#keep({ key, percent, used }, debit, entry);
    }
  }

  #keep(found: Pick<Crossing, 'key' | 'percent' | 'used'>, { limit }: Debit, entry: LedgerEntry): void {
    const { windowMs } = limit;
    const atMs = this.#clock();
    const name = `${found.percent}|${found.key}`;
    if ((this.#known.get(name) ?? 0) > atMs) return;
    const isWindow = waitForMoreMs(limit, 1) === 0;
    const untilMs = atMs + (isWindow ? entry.durationUntilResetMs : windowMs);
    this.#known.delete(name); // so that it becomes the newest
    this.#known.set(name, untilMs);
    if (this.#known.size > MAX_KNOWN) this.#known.delete(this.#known.keys().next().value ?? '');
    if (this.#kept.length >= MAX_KEPT) {
      this.#dropped++;
      return;
    }
    // clocks differ by less than half a step; a window ends at a multiple of its length, or by the calendar of a minute
    const stepMs = windowMs % MINUTE_MS === 0 ? MINUTE_MS : windowMs;
    const window = isWindow ? Math.round(untilMs / stepMs) : Math.floor(atMs / windowMs);
    const id = createHash('sha256').update(`${window}|${name}`).digest('base64url').slice(0, 22);
    this.#kept.push({ ...found, id, atMs, untilMs });
  }
}

/** The store did not count the hits. */
const isByPolicy = ({ degraded }: LedgerEntry): boolean => degraded === 'allow' || degraded === 'deny';

/** Whether a refusal may be the first sign of a limit that is used up: a single hit is refused after the last one passed. */
const isFirstRefusal = (hits: number, capacity: number): boolean => hits > 1 || capacity === 0;
