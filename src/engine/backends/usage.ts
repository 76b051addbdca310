import { type HeldAt, unitMs } from '../algorithms/limit.ts';
import { algorithmFor } from '../holds/limits.ts';
import type { Operation } from './backend.ts';
import { type CounterKey, inOnePiece } from './key.ts';

/** The hits that a counter has admitted in an hour, less those given back; may be negative. */
export interface UsageEntry {
  /** Hours since the epoch, on the clock of the store. */
  readonly hour: number;
  /** Empty for counters beyond `MAX_USAGE_ENTRIES`, which are summed up. */
  readonly key: CounterKey | '';
  readonly hits: number;
}

/** Usage that has been set aside, and does not change any more. */
interface UsageBatch {
  /** Names the batch, for all times. */
  readonly id: string;
  /** Time since it was set aside. */
  readonly ageMs: number;
}

/** What is set aside in all places in which usage is counted. */
export interface UsageAside {
  /** One for each place with usage. */
  readonly batches: readonly UsageBatch[];
  /** Why usage of some places cannot be collected: that of the others can. */
  readonly problems: readonly string[];
}

export interface UsagePage {
  /** The whole hits of counters in an hour. An entry may be on several pages. */
  readonly entries: readonly UsageEntry[];
  /** Hits of counters to be added to those of other pages. */
  readonly added?: readonly UsageEntry[] | undefined;
  /** Names of what another program has written there, which is left out. */
  readonly foreign?: readonly string[] | undefined;
  /** Start of the next page; absent on the last one. */
  readonly next?: string | undefined;
}

/**
 * Usage in a store, until a collector has taken it: `setAside`, `read` all pages, keep them under the batch's id, `drop`.
 * Repeating a step has no effect, so a collector that ends anywhere begins again with `setAside`. Every method may
 * reject with `StoreUnavailable`.
 */
export interface UsageSource {
  /**
   * Sets aside what was counted so far, wherever no batch is set aside already.
   *
   * @param collector  identifies the collector, also after a restart; another one's batch is only returned after
   *                   `ABANDONED_MS`
   * @throws StoreUnavailable if this fails in every place
   */
  setAside(collector: string): Promise<UsageAside>;
  /**
   * @param after  `next` of the previous page; undefined for the first page
   * @returns undefined if this batch is not set aside
   */
  read(id: string, after: string | undefined): Promise<UsagePage | undefined>;
  /** Deletes the batch. */
  drop(id: string): Promise<void>;
}

/** Maximum number of entries between two batches. */
export const MAX_USAGE_ENTRIES = 500_000;
/** Another collector may take a batch over that has been set aside for this long. */
export const ABANDONED_MS = 600_000;

/** See `Row.heldAt`. */
export function heldAt({ limit, metered }: Pick<Operation, 'limit' | 'metered'>): Required<HeldAt> {
  const { most, ...at } = algorithmFor(limit).heldAt?.(limit) ?? { first: 0, last: -1, unit: 1 };
  return { ...at, most: metered === 'all' ? Number.POSITIVE_INFINITY : (most ?? Number.POSITIVE_INFINITY) };
}

/** Usage of counters in this process. */
export class MemoryUsage implements UsageSource {
  /** By hour. */
  #counted = new Map<number, Map<CounterKey | '', number>>();
  #size = 0;
  #aside: { readonly id: string; readonly entries: readonly UsageEntry[]; readonly atMs: number } | undefined;
  readonly #newId: () => string;
  readonly #clock: () => number;

  constructor(clock: () => number, newId: () => string) {
    this.#clock = clock;
    this.#newId = newId;
  }

  /** Counts hits at a time. */
  add(
    { key: counter, usageKey: key = counter }: Pick<Operation, 'key' | 'usageKey'>,
    hits: number,
    nowMs: number,
  ): void {
    if (hits === 0) return;
    const hour = Math.floor(nowMs / unitMs.HOUR);
    const counted = this.#counted.get(hour) ?? new Map<CounterKey | '', number>();
    this.#counted.set(hour, counted);
    const known = counted.get(key);
    if (known !== undefined) return void counted.set(key, known + hits);
    const own = this.#size++ < MAX_USAGE_ENTRIES ? inOnePiece(key) : '';
    counted.set(own, (counted.get(own) ?? 0) + hits);
  }

  async setAside(): Promise<UsageAside> {
    const nowMs = this.#clock();
    if (!this.#aside && this.#size > 0) {
      const entries = Array.from(this.#counted, ([hour, counted]) =>
        Array.from(counted, ([key, hits]): UsageEntry => ({ hour, key, hits })),
      ).flat();
      this.#aside = { id: this.#newId(), entries, atMs: nowMs };
      this.#counted = new Map();
      this.#size = 0;
    }
    return { batches: this.#aside ? [{ id: this.#aside.id, ageMs: nowMs - this.#aside.atMs }] : [], problems: [] };
  }

  async read(id: string, after = '0'): Promise<UsagePage | undefined> {
    if (this.#aside?.id !== id) return undefined;
    const from = Number(after);
    const to = from + PAGE_ENTRIES;
    const next = to < this.#aside.entries.length ? String(to) : undefined;
    return { entries: this.#aside.entries.slice(from, to), next };
  }

  async drop(id: string): Promise<void> {
    if (this.#aside?.id === id) this.#aside = undefined;
  }
}

/** Approximate number of entries on a page. */
export const PAGE_ENTRIES = 2_000;
