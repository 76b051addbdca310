import { mergeTop, SpaceSaving, slotBytes, TABLE_BYTES, type TopList } from './space-saving.ts';

/** A memory budget that several tables share. */
export class ByteBudget {
  readonly #maxBytes: number;
  #usedBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  hasRoomFor(bytes: number): boolean {
    return this.#usedBytes + bytes <= this.#maxBytes;
  }

  /** @param bytes  negative to free memory */
  change(bytes: number): void {
    this.#usedBytes += bytes;
  }
}

/** Number of tables that cover the last minute, and the time that each covers. */
export const WINDOW_SLOTS = 6;
export const SLOT_MS = 10_000;

/** The most frequent keys of the last minute, in tables of ten seconds each, of which the oldest is dropped whole. */
export class RotatingTop {
  readonly #capacity: number;
  readonly #budget: ByteBudget;
  /** Tables, newest first; undefined if nothing was counted in its ten seconds. */
  #tables: (SpaceSaving | undefined)[] = [undefined];

  /** @param capacity  maximum number of keys of one table */
  constructor(capacity: number, budget: ByteBudget) {
    this.#capacity = capacity;
    this.#budget = budget;
  }

  get isEmpty(): boolean {
    return this.#counted.length === 0;
  }

  /** Sum of all counts. */
  get total(): number {
    return this.#counted.reduce((sum, { total }) => sum + total, 0);
  }

  get #counted(): readonly SpaceSaving[] {
    return this.#tables.filter((table) => table !== undefined);
  }

  /** @returns false if the budget allows no key at all */
  add(name: string, by: number): boolean {
    const table = this.#tables[0];
    if (table?.addToKnown(name, by)) return true;
    const bytes = slotBytes(name) + (table ? 0 : TABLE_BYTES);
    const mayGrow = (table?.size ?? 0) < this.#capacity && this.#budget.hasRoomFor(bytes);
    if (!table && !mayGrow) return false;
    const before = table?.bytes ?? 0;
    const current = table ?? new SpaceSaving();
    this.#tables[0] = current;
    current.addNew(name, by, mayGrow);
    this.#budget.change(current.bytes - before);
    return true;
  }

  /** Call every `SLOT_MS`. */
  rotate(): void {
    const dropped = this.#tables.length === WINDOW_SLOTS ? this.#tables.pop() : undefined;
    if (dropped) this.#budget.change(-dropped.bytes);
    this.#tables.unshift(undefined);
  }

  countOf(name: string): number {
    return this.#counted.reduce((sum, table) => sum + table.countOf(name), 0);
  }

  list(): TopList {
    return mergeTop(
      this.#counted.map((table) => ({
        entries: [...table.entries()],
        total: table.total,
        unlistedAtMost: table.minimum,
      })),
    );
  }
}
