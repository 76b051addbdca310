/** One of the most frequent keys. */
export interface TopEntry {
  readonly key: string;
  /** At least as much as was counted. */
  readonly count: number;
  /** `count` is too high by so much at most. */
  readonly error: number;
}

/** What a slot takes besides its key, about: the map's entry, three numbers, the place in the heap. */
const SLOT_BYTES = 120;

export const slotBytes = (key: string): number => SLOT_BYTES + 2 * key.length;

/** What a table takes besides its slots, about: a map, five arrays, and the least that each of them reserves. */
export const TABLE_BYTES = 1_300;

/**
 * The most frequent keys of a stream, by Space-Saving: `capacity` counters; a key that has none takes over the
 * smallest, with its count as the error. Every key above `minimum` is among them.
 *
 * @see https://doi.org/10.1007/978-3-540-30570-5_27
 */
export class SpaceSaving {
  readonly #slots = new Map<string, number>();
  readonly #keys: string[] = [];
  readonly #counts: number[] = [];
  readonly #errors: number[] = [];
  /** Slots as a heap, the smallest count first, and the place of each slot in it. */
  readonly #heap: number[] = [];
  readonly #places: number[] = [];
  #total = 0;
  #bytes = TABLE_BYTES;

  get size(): number {
    return this.#keys.length;
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

  has(key: string): boolean {
    return this.#slots.has(key);
  }

  /** @param mayGrow  whether a new key may have a counter of its own */
  add(key: string, by: number, mayGrow: boolean): void {
    this.#total += by;
    const known = this.#slots.get(key);
    if (known !== undefined) {
      this.#counts[known] = (this.#counts[known] ?? 0) + by;
      this.#sink(this.#places[known] ?? 0);
    } else if (mayGrow && !this.#isReplacing) this.#append(key, by);
    else if (this.#keys.length > 0) this.#replace(key, by);
  }

  *entries(): Iterable<TopEntry> {
    for (const [slot, key] of this.#keys.entries())
      yield { key, count: this.#counts[slot] ?? 0, error: this.#errors[slot] ?? 0 };
  }

  #append(key: string, by: number): void {
    const slot = this.#keys.length;
    this.#keys.push(key);
    this.#counts.push(by);
    this.#errors.push(0);
    this.#places.push(slot);
    this.#heap.push(slot);
    this.#slots.set(key, slot);
    this.#bytes += slotBytes(key);
    this.#rise(slot);
  }

  #replace(key: string, by: number): void {
    this.#isReplacing = true;
    const slot = this.#heap[0] ?? 0;
    const old = this.#keys[slot] ?? '';
    this.#slots.delete(old);
    this.#slots.set(key, slot);
    this.#bytes += slotBytes(key) - slotBytes(old);
    this.#keys[slot] = key;
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
