import { NameIndex } from './name-index.ts';
import { encodedName, keptName, nameBytes, type TopName } from './top-name.ts';

/** One of the most frequent names. */
export interface TopEntry {
  /** As `encodedName` writes it. */
  readonly key: string;
  /** At least as much as was counted. */
  readonly count: number;
  /** `count` is too high by so much at most. */
  readonly error: number;
}

/** What a slot takes besides its name, about: numbers in eight arrays, and the name's object. */
const SLOT_BYTES = 160;

export const slotBytes = (name: TopName): number => SLOT_BYTES + nameBytes(name);

/** What a table takes besides its slots, about, on Node 26: its arrays, and the least that each of them reserves. */
export const TABLE_BYTES = 1_450;

/**
 * The most frequent keys of a stream, by Space-Saving: `capacity` counters; a key that has none takes over the
 * smallest, with its count as the error. Every key above `minimum` is among them.
 *
 * @see https://doi.org/10.1007/978-3-540-30570-5_27
 */
export class SpaceSaving {
  readonly #index = new NameIndex();
  readonly #counts: number[] = [];
  readonly #errors: number[] = [];
  /** Slots as a heap, the smallest count first, and the place of each slot in it. */
  readonly #heap: number[] = [];
  readonly #places: number[] = [];
  #total = 0;
  #bytes = TABLE_BYTES;

  get size(): number {
    return this.#index.size;
  }

  /** All that was counted. */
  get total(): number {
    return this.#total;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** A key that is not listed was counted so often at most. */
  get minimum(): number {
    return this.#isReplacing ? (this.#counts[this.#heap[0] ?? 0] ?? 0) : 0;
  }
  #isReplacing = false;

  /** Adds to the count of a name that is listed. @returns false  it is not */
  addToKnown(name: TopName, by: number): boolean {
    const known = this.#index.find(name);
    if (known < 0) return false;
    this.#total += by;
    this.#counts[known] = (this.#counts[known] ?? 0) + by;
    this.#sink(this.#places[known] ?? 0);
    return true;
  }

  /** Lists a name that is not listed. @param mayGrow  whether it may have a counter of its own */
  addNew(name: TopName, by: number, mayGrow: boolean): void {
    this.#total += by;
    if (mayGrow && !this.#isReplacing) this.#append(keptName(name), by);
    else if (this.size > 0) this.#replace(keptName(name), by);
  }

  *entries(): Iterable<TopEntry> {
    for (const [slot, name] of this.#index.names().entries())
      yield { key: encodedName(name), count: this.#counts[slot] ?? 0, error: this.#errors[slot] ?? 0 };
  }

  #append(name: TopName, by: number): void {
    const slot = this.#index.add(name);
    this.#counts.push(by);
    this.#errors.push(0);
    this.#places.push(slot);
    this.#heap.push(slot);
    this.#bytes += slotBytes(name);
    this.#rise(slot);
  }

  #replace(name: TopName, by: number): void {
    this.#isReplacing = true;
    const slot = this.#heap[0] ?? 0;
    const old = this.#index.replace(slot, name);
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

/** A list of the most frequent keys, and what is known of the others. */
export interface TopList {
  readonly entries: readonly TopEntry[];
  /** All that was counted. */
  readonly total: number;
  /** A key that is not in `entries` was counted so often at most. */
  readonly unlistedAtMost: number;
}

/**
 * Puts lists together; the bounds hold for the sums. A key that a list does not have may have been counted there as
 * often as `unlistedAtMost` says.
 */
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
