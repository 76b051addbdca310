import type { State } from '../../algorithms/limit.ts';
import { type CounterKey, isWide, keyBytes } from '../key.ts';

/** The number of slots that are allocated together. */
const CHUNK_SLOTS = 1_024;

/** Maximum length of a state that fits into the slot; only logs and windows in parts have longer ones. */
const SHORT_STATE = 3;

/** Numbers in a slot: when its counter expires, then a short state. */
const SLOT_NUMBERS = 1 + SHORT_STATE;

/** Marks a long state in place of a length. */
const LONG = SHORT_STATE + 1;

/** Flags of a slot: its counter was hit since the hand last passed; its key takes two bytes per character. */
const MARKED = 1;
const WIDE = 2;

/** Bytes of the numbers, a length, flags and a reference to the key. */
const SLOT_BYTES = 8 * SLOT_NUMBERS + 1 + 1 + 8;

/** Bytes of the reference to a long state, its array's two headers, and each of its numbers. */
const LONG_STATE_BYTES = 56;
const NUMBER_BYTES = 8;

interface Chunk {
  readonly numbers: Float64Array;
  readonly lengths: Uint8Array;
  readonly flags: Uint8Array;
  readonly keys: (CounterKey | undefined)[];
  /** Long states by slot; undefined while the chunk has had none. */
  longStates: (State | undefined)[] | undefined;
}

/**
 * The data of each counter, by the number of its slot: from 0 to `size`, without gaps. Only valid slot numbers may be
 * passed.
 *
 * Slots are in typed arrays of a thousand each, so that there are hardly any objects to collect, and growing copies
 * nothing. All but one or two thousand unused slots are released.
 */
export class CounterSlots {
  readonly #chunks: Chunk[] = [];
  #size = 0;
  #bytes = 0;

  get size(): number {
    return this.#size;
  }

  /** The memory of all counters: slots, keys with their entry in an index, and long states. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A new slot for the key: not expired, not marked, empty. */
  add(key: CounterKey): number {
    const slot = this.#size++;
    if (slot === this.#chunks.length * CHUNK_SLOTS) this.#chunks.push(createChunk());
    this.#begin(slot, key);
    return slot;
  }

  /** Reassigns the slot to another key, like `add`. */
  replace(slot: number, key: CounterKey): void {
    this.#bytes -= this.bytesAt(slot);
    this.#clear(slot);
    this.#begin(slot, key);
  }

  /** Drops the slot's counter. The counter of the last slot, whose number is the new `size`, takes its place. */
  remove(slot: number): void {
    this.#bytes -= this.bytesAt(slot);
    const last = --this.#size;
    const from = this.#chunkAt(last);
    const to = this.#chunkAt(slot);
    const [atLast, at] = [last % CHUNK_SLOTS, slot % CHUNK_SLOTS];
    to.keys[at] = from.keys[atLast];
    to.flags[at] = from.flags[atLast] ?? 0;
    to.lengths[at] = from.lengths[atLast] ?? 0;
    for (let number = 0; number < SLOT_NUMBERS; number++)
      to.numbers[numbersAt(slot) + number] = from.numbers[numbersAt(last) + number] ?? 0;
    const long = from.longStates?.[atLast];
    if (long || to.longStates) ensureLongStates(to)[at] = long;
    this.#clear(last);
    if (last <= (this.#chunks.length - 2) * CHUNK_SLOTS) this.#chunks.pop();
  }

  keyAt(slot: number): CounterKey {
    return this.#chunkAt(slot).keys[slot % CHUNK_SLOTS] as CounterKey; // each slot has one
  }

  stateAt(slot: number): State {
    const { numbers, lengths, longStates } = this.#chunkAt(slot);
    const length = lengths[slot % CHUNK_SLOTS] ?? 0;
    if (length === LONG) return longStates?.[slot % CHUNK_SLOTS] ?? [];
    const state: number[] = [];
    for (let at = numbersAt(slot) + 1; state.length < length; at++) state.push(numbers[at] ?? 0);
    return state;
  }

  expiresAtMs(slot: number): number {
    return this.#chunkAt(slot).numbers[numbersAt(slot)] ?? 0;
  }

  /** The memory of the slot's counter. */
  bytesAt(slot: number): number {
    const { keys, flags, longStates } = this.#chunkAt(slot);
    const at = slot % CHUNK_SLOTS;
    const { length = 0 } = keys[at] ?? {};
    return slotBytes(length, ((flags[at] ?? 0) & WIDE) !== 0) + longBytes(longStates?.[at]);
  }

  keep(slot: number, state: State, expiresAtMs: number): void {
    const chunk = this.#chunkAt(slot);
    const at = slot % CHUNK_SLOTS;
    chunk.numbers[numbersAt(slot)] = expiresAtMs;
    if (state.length > SHORT_STATE) {
      const longStates = ensureLongStates(chunk);
      this.#bytes += longBytes(state) - longBytes(longStates[at]);
      chunk.lengths[at] = LONG;
      longStates[at] = state.slice(); // an exact copy has no spare capacity
      return;
    }
    chunk.lengths[at] = state.length;
    chunk.numbers.set(state, numbersAt(slot) + 1);
    if (!chunk.longStates) return;
    this.#bytes -= longBytes(chunk.longStates[at]);
    chunk.longStates[at] = undefined;
  }

  isMarked(slot: number): boolean {
    return ((this.#chunkAt(slot).flags[slot % CHUNK_SLOTS] ?? 0) & MARKED) !== 0;
  }

  mark(slot: number, marked: boolean): void {
    const { flags } = this.#chunkAt(slot);
    const at = slot % CHUNK_SLOTS;
    const others = (flags[at] ?? 0) & ~MARKED;
    flags[at] = marked ? others | MARKED : others;
  }

  #begin(slot: number, key: CounterKey): void {
    const { keys, flags } = this.#chunkAt(slot);
    const wide = isWide(key);
    keys[slot % CHUNK_SLOTS] = key;
    flags[slot % CHUNK_SLOTS] = wide ? WIDE : 0;
    this.#bytes += slotBytes(key.length, wide);
  }

  #clear(slot: number): void {
    const { keys, longStates } = this.#chunkAt(slot);
    keys[slot % CHUNK_SLOTS] = undefined;
    if (longStates) longStates[slot % CHUNK_SLOTS] = undefined;
  }

  #chunkAt(slot: number): Chunk {
    return this.#chunks[Math.floor(slot / CHUNK_SLOTS)] as Chunk; // below `size`, or just allocated
  }
}

/** The memory of a counter whose state fits into its slot: 42 bytes, and its key. */
export const slotBytes = (keyLength: number, wide: boolean): number => SLOT_BYTES + keyBytes(keyLength, wide);

const createChunk = (): Chunk => ({
  numbers: new Float64Array(CHUNK_SLOTS * SLOT_NUMBERS),
  lengths: new Uint8Array(CHUNK_SLOTS),
  flags: new Uint8Array(CHUNK_SLOTS),
  keys: emptySlots(),
  longStates: undefined,
});

function ensureLongStates(chunk: Chunk): (State | undefined)[] {
  chunk.longStates ??= emptySlots();
  return chunk.longStates;
}

/** Filled, since the array would otherwise grow by copying. */
const emptySlots = <T>(): (T | undefined)[] => new Array<T | undefined>(CHUNK_SLOTS).fill(undefined);

/** The index of a slot's first number in its chunk. */
const numbersAt = (slot: number): number => (slot % CHUNK_SLOTS) * SLOT_NUMBERS;

const longBytes = (state: State | undefined): number => (state ? LONG_STATE_BYTES + NUMBER_BYTES * state.length : 0);
