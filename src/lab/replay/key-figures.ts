/** Number of parts of a window for which hits are summed. */
const PARTS = 20;

/** A time, and the key that it belongs to. */
export interface KeyAtTime {
  readonly key: string;
  readonly timeMs: number;
}

/** Number of keys that may still be added, shared by all rules. */
export interface KeyBudget {
  left: number;
}

/** Index in a row of `HurtKeys` of the number of refusals. */
const REFUSALS = 0;
/** Index of the time of the first refusal since the last admission, or `NOT_LOCKED` if the last hits were admitted. */
const LOCKED_SINCE_MS = 1;
const HURT_WIDTH = 2;
const NOT_LOCKED = -1;

/** Refused keys of one rule. */
export class HurtKeys {
  readonly #places = new Map<string, number>();
  readonly #rows = new NumberRows(HURT_WIDTH);
  readonly #budget: KeyBudget;
  first: KeyAtTime | undefined;
  longest: (KeyAtTime & { readonly ms: number }) | undefined;
  /** Refusals of keys beyond the budget. */
  untracked = 0;

  constructor(budget: KeyBudget) {
    this.#budget = budget;
  }

  /** The number of refused keys within the budget. */
  get size(): number {
    return this.#places.size;
  }

  refused(key: string, timeMs: number): void {
    const row = this.#places.get(key);
    if (row === undefined) return this.#begin(key, timeMs);
    const { values } = this.#rows;
    values[row + REFUSALS] = (values[row + REFUSALS] ?? 0) + 1;
    const since = values[row + LOCKED_SINCE_MS] ?? NOT_LOCKED;
    if (since === NOT_LOCKED) values[row + LOCKED_SINCE_MS] = timeMs;
    else if (timeMs - since > (this.longest?.ms ?? 0)) this.longest = { key, timeMs: since, ms: timeMs - since };
  }

  admitted(key: string): void {
    const row = this.#places.size === 0 ? undefined : this.#places.get(key);
    if (row !== undefined) this.#rows.values[row + LOCKED_SINCE_MS] = NOT_LOCKED;
  }

  *refusals(): Iterable<KeyRefusals> {
    for (const [key, row] of this.#places) yield { key, refusals: this.#rows.values[row + REFUSALS] ?? 0 };
  }

  #begin(key: string, timeMs: number): void {
    this.first ??= { key, timeMs };
    if (this.#budget.left <= 0) {
      this.untracked++;
      return;
    }
    this.#budget.left--;
    const row = this.#rows.add();
    this.#places.set(key, row);
    this.#rows.values[row + REFUSALS] = 1;
    this.#rows.values[row + LOCKED_SINCE_MS] = timeMs;
  }
}

/** A key, and the number of its refusals. */
export interface KeyRefusals {
  readonly key: string;
  readonly refusals: number;
}

/** The keys with most refusals, in descending order. */
export function mostRefused(keys: Iterable<KeyRefusals>, count: number): readonly KeyRefusals[] {
  const most: KeyRefusals[] = [];
  for (const one of keys) {
    const at = most.findIndex((other) => isMore(one, other));
    if (at < 0 && most.length >= count) continue;
    most.splice(at < 0 ? most.length : at, 0, one);
    if (most.length > count) most.pop();
  }
  return most;
}

const isMore = (one: KeyRefusals, other: KeyRefusals): boolean =>
  one.refusals > other.refusals || (one.refusals === other.refusals && one.key < other.key);

/** Index in a row of `PeakHits` of the part with the last hits. */
const PART = 0;
/** Index of the hits of the last `PARTS` parts. */
const SUM = 1;
/** Index of the hits of each of these parts, by part modulo `PARTS`. */
const FIRST_PART = 2;
const PEAK_WIDTH = FIRST_PART + PARTS;

/**
 * Tracks the maximum hits of one key admitted within the length of a window. Intervals begin at multiples of a
 * twentieth of the window, so the true maximum may be higher by the hits of one twentieth.
 */
export class PeakHits {
  readonly windowMs: number;
  readonly #budget: KeyBudget;
  readonly #places = new Map<string, number>();
  readonly #rows = new NumberRows(PEAK_WIDTH);
  #sweptAtPart = Number.NEGATIVE_INFINITY;
  peak: (KeyAtTime & { readonly hits: number }) | undefined;
  /** Hits of keys beyond the budget. */
  untracked = 0;

  constructor(windowMs: number, budget: KeyBudget) {
    this.windowMs = windowMs;
    this.#budget = budget;
  }

  admitted(key: string, hits: number, timeMs: number): void {
    const part = Math.floor((timeMs * PARTS) / this.windowMs);
    let row = this.#places.get(key);
    if (row === undefined) {
      if (this.#budget.left <= 0 && !this.#sweep(part)) {
        this.untracked += hits;
        return;
      }
      this.#budget.left--;
      row = this.#rows.add();
      this.#rows.values[row + PART] = part;
      this.#places.set(key, row);
    }
    const { values } = this.#rows;
    if (part > (values[row + PART] ?? 0)) advance(values, row, part);
    const at = row + FIRST_PART + ((values[row + PART] ?? 0) % PARTS);
    values[at] = (values[at] ?? 0) + hits;
    const sum = (values[row + SUM] ?? 0) + hits;
    values[row + SUM] = sum;
    if (sum > (this.peak?.hits ?? 0)) this.peak = { key, timeMs, hits: sum };
  }

  /** Forgets all hits. */
  restart(): void {
    for (const row of this.#places.values()) this.#rows.remove(row);
    this.#budget.left += this.#places.size;
    this.#places.clear();
    this.peak = undefined;
  }

  /**
   * Drops keys without hits in the last window, at most once per part. @returns whether the budget allows another key
   */
  #sweep(part: number): boolean {
    if (part === this.#sweptAtPart) return false;
    this.#sweptAtPart = part;
    for (const [key, row] of this.#places) {
      if ((this.#rows.values[row + PART] ?? 0) > part - PARTS) continue;
      this.#places.delete(key);
      this.#rows.remove(row);
      this.#budget.left++;
    }
    return this.#budget.left > 0;
  }
}

/** Drops parts that are older than a window. */
function advance(values: Float64Array, row: number, part: number): void {
  const last = values[row + PART] ?? 0;
  if (part - last >= PARTS) values.fill(0, row + SUM, row + PEAK_WIDTH);
  else
    for (let one = last + 1; one <= part; one++) {
      const at = row + FIRST_PART + (one % PARTS);
      values[row + SUM] = (values[row + SUM] ?? 0) - (values[at] ?? 0);
      values[at] = 0;
    }
  values[row + PART] = part;
}

const FIRST_ROWS = 16;

/** Rows of numbers in one block of memory, since an object per row would take several times as much. */
class NumberRows {
  readonly #width: number;
  readonly #free: number[] = [];
  #end = 0;
  /** Values of all rows; `add` may replace the array. */
  values = new Float64Array(0);

  /** @param width  numbers per row */
  constructor(width: number) {
    this.#width = width;
  }

  /** @returns the index of the new row's first number; its numbers are 0 */
  add(): number {
    const freed = this.#free.pop();
    if (freed !== undefined) return freed;
    const row = this.#end;
    this.#end += this.#width;
    if (this.#end > this.values.length) {
      const larger = new Float64Array(Math.max(FIRST_ROWS * this.#width, 2 * this.values.length));
      larger.set(this.values);
      this.values = larger;
    }
    return row;
  }

  /** Frees the row for reuse by a later `add`. */
  remove(row: number): void {
    this.values.fill(0, row, row + this.#width);
    this.#free.push(row);
  }
}
