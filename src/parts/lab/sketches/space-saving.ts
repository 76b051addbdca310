import { inOnePiece } from '../../../engine/backends/key.ts';

/** One of the most frequent names. */
export interface TopEntry {
  readonly key: string;
  /** Upper bound of the true count. */
  readonly count: number;
  /** Maximum by which `count` may be too high. */
  readonly error: number;
}

/** Approximate memory of a slot besides its name, for numbers in five arrays and an entry of the index. */
const SLOT_BYTES = 160;

export const slotBytes = (name: string): number => SLOT_BYTES + 2 * name.length;

/** Approximate memory of a table besides its slots on Node 26, with the minimum that each array reserves. */
export const TABLE_BYTES = 1_450;

/**
 * The most frequent keys of a stream, by Space-Saving with a bounded number of counters. A key without one takes over
 * the smallest, with its count as the error. Every key with a count above `minimum` is listed.
 *
 * @see https://doi.org/10.1007/978-3-540-30570-5_27
 */
export class SpaceSaving {
  /** Slots by name, and names by slot. */
  readonly #index = new Map<string, number>();
  readonly #names: string[] = [];
  readonly #counts: number[] = [];
  readonly #errors: number[] = [];
  /** A heap of slots with the smallest count first, and the position of each slot in it. */
  readonly #heap: number[] = [];
  readonly #places: number[] = [];
  #total = 0;
  #bytes = TABLE_BYTES;

  get size(): number {
    return this.#index.size;
  }

  /** Sum of all counts. */
  get total(): number {
    return this.#total;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Maximum count of a key that is not listed. */
  get minimum(): number {
    return this.#isReplacing ? (this.#counts[this.#heap[0] ?? 0] ?? 0) : 0;
  }
  #isReplacing = false;

  /** Upper bound of a listed name's count; 0 if it is not listed. */
  countOf(name: string): number {
    const known = this.#index.get(name);
    return known === undefined ? 0 : (this.#counts[known] ?? 0);
  }

  /** Adds to the count of a listed name. @returns false if the name is not listed */
  addToKnown(name: string, by: number): boolean {
    const known = this.#index.get(name);
    if (known === undefined) return false;
    this.#total += by;
    this.#counts[known] = (this.#counts[known] ?? 0) + by;
    this.#sink(this.#places[known] ?? 0);
    return true;
  }

  /** Lists a new name. @param mayGrow  whether it may have a counter of its own */
  addNew(name: string, by: number, mayGrow: boolean): void {
    this.#total += by;
    if (mayGrow && !this.#isReplacing) this.#append(inOnePiece(name), by);
    else if (this.size > 0) this.#replace(inOnePiece(name), by);
  }

  *entries(): Iterable<TopEntry> {
    for (const [slot, key] of this.#names.entries())
      yield { key, count: this.#counts[slot] ?? 0, error: this.#errors[slot] ?? 0 };
  }

  #append(name: string, by: number): void {
    const slot = this.#names.push(name) - 1;
    this.#index.set(name, slot);
    this.#counts.push(by);
    this.#errors.push(0);
    this.#places.push(slot);
    this.#heap.push(slot);
    this.#bytes += slotBytes(name);
    this.#rise(slot);
  }

  #replace(name: string, by: number): void {
    this.#isReplacing = true;
    const slot = this.#heap[0] ?? 0;
    const old = this.#names[slot] ?? '';
    this.#index.delete(old);
    this.#index.set(name, slot);
    this.#names[slot] = name;
    this.#bytes += slotBytes(name) - slotBytes(old);
    this.#errors[slot] = this.#counts[slot] ?? 0;
    this.#counts[slot] = (this.#counts[slot] ?? 0) + by;
    this.#sink(0);
  }

  #countAt(place: number): number {
    return this.#counts[this.#heap[place] ?? 0] ?? 0;
  }

  #rise(from: number): void {
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (this.#countAt(parent) <= this.#countAt(place)) return;
      this.#swap(place, parent);
      place = parent;
    }
  }

  #sink(from: number): void {
    const size = this.#heap.length;
    let place = from;
    for (;;) {
      const left = 2 * place + 1;
      if (left >= size) return;
      const right = left + 1;
      const child = right < size && this.#countAt(right) < this.#countAt(left) ? right : left;
      if (this.#countAt(place) <= this.#countAt(child)) return;
      this.#swap(place, child);
      place = child;
    }
  }

  #swap(one: number, other: number): void {
    const first = this.#heap[one] ?? 0;
    const second = this.#heap[other] ?? 0;
    this.#heap[one] = second;
    this.#heap[other] = first;
    this.#places[second] = one;
    this.#places[first] = other;
  }
}

/** A list of the most frequent keys, with a bound on the others. */
export interface TopList {
  readonly entries: readonly TopEntry[];
  /** Sum of all counts. */
  readonly total: number;
  /** Maximum count of a key that is not in `entries`. */
  readonly unlistedAtMost: number;
}

/** Merges lists; bounds hold for the sums. A key missing from a list may have been counted up to `unlistedAtMost`. */
export function mergeTop(lists: readonly TopList[]): TopList {
  const unlistedAtMost = lists.reduce((sum, list) => sum + list.unlistedAtMost, 0);
  const sums = new Map<string, { count: number; error: number }>();
  for (const list of lists) {
    for (const { key, count, error } of list.entries) {
      const sum = sums.get(key) ?? { count: unlistedAtMost, error: unlistedAtMost };
      sums.set(key, sum);
      sum.count += count - list.unlistedAtMost;
      sum.error += error - list.unlistedAtMost;
    }
  }
  const entries = Array.from(sums, ([key, { count, error }]) => ({ key, count, error }));
  entries.sort((one, other) => other.count - one.count);
  return { entries, total: lists.reduce((sum, list) => sum + list.total, 0), unlistedAtMost };
}
