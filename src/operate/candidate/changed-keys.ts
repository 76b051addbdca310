import type { Entry } from '../../engine/rules/match/match.ts';
import type { ByteBudget } from '../../lab/sketches/rotating-top.ts';
import { SpaceSaving, slotBytes, TABLE_BYTES } from '../../lab/sketches/space-saving.ts';
import { topNameOf } from '../../lab/sketches/top-name.ts';
import type { ChangedKeys } from './report.ts';

/** The most keys in one table. */
const CAPACITY = 200;

const noKeys: ChangedKeys = {
  list: { entries: [], total: 0, unlistedAtMost: 0 },
  count: 0,
  isAtLeast: false,
};

/** Counts the descriptors whose answers differ: the most frequent ones, in bounded memory. */
export class ChangedKeyTable {
  readonly #budget: ByteBudget;
  /** Absent: nothing was counted yet. */
  #table: SpaceSaving | undefined;
  /** Some key has no counter. */
  #isFull = false;

  /** @param budget  shared with other tables */
  constructor(budget: ByteBudget) {
    this.#budget = budget;
  }

  add(entries: readonly Entry[]): void {
    const name = topNameOf(entries);
    const table = this.#table ?? new SpaceSaving();
    if (table.addToKnown(name, 1)) return;
    const bytes = slotBytes(name) + (this.#table ? 0 : TABLE_BYTES);
    const mayGrow = table.size < CAPACITY && this.#budget.hasRoomFor(bytes);
    if (!mayGrow) this.#isFull = true;
    if (!this.#table && !mayGrow) return;
    const before = this.#table?.bytes ?? 0;
    this.#table = table;
    table.addNew(name, 1, mayGrow);
    this.#budget.change(table.bytes - before);
  }

  /** @param count  the longest list; 0: no list */
  report(count: number): ChangedKeys {
    const table = this.#table;
    if (!table || count === 0) return { ...noKeys, count: table?.size ?? 0, isAtLeast: this.#isFull };
    const entries = [...table.entries()].sort((one, other) => other.count - one.count);
    // a key that is cut off was counted at most as often as the first of those
    const cut = entries.length > count ? (entries[count]?.count ?? 0) : 0;
    const unlistedAtMost = Math.max(table.minimum, cut);
    return {
      list: { entries: entries.slice(0, count), total: table.total, unlistedAtMost },
      count: table.size,
      isAtLeast: this.#isFull,
    };
  }
}
