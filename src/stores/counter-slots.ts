import type { State } from '../algorithms/limit.ts';
import type { CounterKey } from './key.ts';

/** What is known of each counter, by the number of its slot. Only slots that were taken may be asked for. */
export interface CounterSlots {
  /** Slots that were ever taken: 0 up to it. */
  end(): number;
  /** A free slot, now the key's: not expired, not marked, with nothing in it. */
  take(key: CounterKey): number;
  release(slot: number): void;
  /** Undefined: the slot is free. */
  keyOf(slot: number): CounterKey | undefined;
  stateOf(slot: number): State;
  expiresAtMs(slot: number): number;
  keep(slot: number, state: State, expiresAtMs: number): void;
  isMarked(slot: number): boolean;
  mark(slot: number, marked: boolean): void;
}

/** Slots that are allocated together. */
const CHUNK_SLOTS = 1_024;

/** The longest state that lies in the slot itself. Only logs and windows in parts have longer ones. */
const SHORT_STATE = 3;

/** Of a slot: when its counter expires, then a short state. Of a free slot: the free one before it. */
const SLOT_NUMBERS = 1 + SHORT_STATE;

/** In place of a length: the state is among the long ones. */
const LONG = SHORT_STATE + 1;

/** Ends the list of free slots. */
const NO_SLOT = -1;

interface Chunk {
  readonly numbers: Float64Array;
  readonly lengths: Uint8Array;
  readonly marks: Uint8Array;
  readonly keys: (CounterKey | undefined)[];
  /** Undefined until there is one. */
  longStates: (State | undefined)[] | undefined;
}

/**
 * Slots in typed arrays of a thousand each, so that there is hardly an object to collect, and growing copies nothing.
 * A slot takes 42 bytes, besides its key and a long state; once released it is used again, but not given back.
 */
export function createCounterSlots(): CounterSlots {
  const chunks: Chunk[] = [];
  let end = 0;
  let lastFree = NO_SLOT;

  const chunkOf = (slot: number): Chunk => chunks[Math.floor(slot / CHUNK_SLOTS)] as Chunk; // a taken slot has one
  const nextFree = (): number => {
    if (lastFree === NO_SLOT) {
      if (end % CHUNK_SLOTS === 0) chunks.push(createChunk());
      return end++;
    }
    const slot = lastFree;
    lastFree = chunkOf(slot).numbers[numbersAt(slot)] ?? NO_SLOT;
    return slot;
  };

  return {
    end: () => end,
    take(key) {
      const slot = nextFree();
      chunkOf(slot).keys[slot % CHUNK_SLOTS] = key;
      return slot;
    },
    release(slot) {
      const chunk = chunkOf(slot);
      const at = slot % CHUNK_SLOTS;
      chunk.keys[at] = undefined;
      chunk.marks[at] = 0;
      if (chunk.longStates) chunk.longStates[at] = undefined;
      chunk.numbers[numbersAt(slot)] = lastFree;
      lastFree = slot;
    },
    keyOf: (slot) => chunkOf(slot).keys[slot % CHUNK_SLOTS],
    stateOf: (slot) => stateIn(chunkOf(slot), slot),
    expiresAtMs: (slot) => chunkOf(slot).numbers[numbersAt(slot)] ?? 0,
    keep(slot, state, expiresAtMs) {
      const chunk = chunkOf(slot);
      chunk.numbers[numbersAt(slot)] = expiresAtMs;
      keepState(chunk, slot, state);
    },
    isMarked: (slot) => chunkOf(slot).marks[slot % CHUNK_SLOTS] === 1,
    mark(slot, marked) {
      chunkOf(slot).marks[slot % CHUNK_SLOTS] = marked ? 1 : 0;
    },
  };
}

const createChunk = (): Chunk => ({
  numbers: new Float64Array(CHUNK_SLOTS * SLOT_NUMBERS),
  lengths: new Uint8Array(CHUNK_SLOTS),
  marks: new Uint8Array(CHUNK_SLOTS),
  keys: emptySlots(),
  longStates: undefined,
});

/** Filled, or the array would grow by copying. */
const emptySlots = <T>(): (T | undefined)[] => new Array<T | undefined>(CHUNK_SLOTS).fill(undefined);

/** Where a slot's numbers begin in its chunk. */
const numbersAt = (slot: number): number => (slot % CHUNK_SLOTS) * SLOT_NUMBERS;

function stateIn({ numbers, lengths, longStates }: Chunk, slot: number): State {
  const length = lengths[slot % CHUNK_SLOTS] ?? 0;
  if (length === LONG) return longStates?.[slot % CHUNK_SLOTS] ?? [];
  const state: number[] = [];
  for (let at = numbersAt(slot) + 1; state.length < length; at++) state.push(numbers[at] ?? 0);
  return state;
}

function keepState(chunk: Chunk, slot: number, state: State): void {
  const at = slot % CHUNK_SLOTS;
  if (state.length > SHORT_STATE) {
    chunk.lengths[at] = LONG;
    chunk.longStates ??= emptySlots();
    chunk.longStates[at] = state.slice(); // which has no room to grow
    return;
  }
  chunk.lengths[at] = state.length;
  chunk.numbers.set(state, numbersAt(slot) + 1);
  if (chunk.longStates) chunk.longStates[at] = undefined;
}
