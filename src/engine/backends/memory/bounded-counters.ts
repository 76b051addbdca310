import type { State, Step } from '../../algorithms/limit.ts';
import { type CounterKey, inOnePiece, keptKey } from '../key.ts';
import { CounterSlots, slotBytes } from './counter-slots.ts';

export interface CounterBounds {
  readonly maxCounters: number;
  /** Maximum memory of all counters, as measured by `bytes`. Default: unlimited. */
  readonly maxBytes?: number;
}

/** What a step leaves, and for how long. */
type Kept = Pick<Step, 'state' | 'ttlMs'>;

/** Maximum number of counters that the hand passes in search of one to evict; then it evicts the next in any case. */
const MAX_SWEEP = 16;

/**
 * Counters by key, bounded in number and bytes; each is kept until it expires.
 *
 * A hand goes round the counters, two for each new one. It drops expired counters and, when there is no room, those
 * that were not hit since its last pass (the CLOCK approximation of least recently used), so that a flood of new keys
 * displaces other cold keys before busy ones. It passes at most `MAX_SWEEP` counters for each one that it drops, and a
 * hit drops only as many as make room for its own: several with short keys for one with a long key. So no hit waits,
 * however many counters expire at once and however long the keys are.
 *
 * @see https://en.wikipedia.org/wiki/Page_replacement_algorithm#Clock
 */
export class BoundedCounters {
  readonly #maxCounters: number;
  readonly #maxBytes: number;
  #index: ReturnType<typeof createKeyIndex>;
  #slots = new CounterSlots();
  /** The slot that the hand passes next. */
  #hand = 0;
  #evicted = 0;

  constructor({ maxCounters, maxBytes = Number.POSITIVE_INFINITY }: CounterBounds) {
    this.#maxCounters = maxCounters;
    this.#maxBytes = maxBytes;
    this.#index = createKeyIndex(maxCounters);
  }

  get size(): number {
    return this.#slots.size;
  }

  /** The memory of all counters, within a quarter: slots, keys with their entry in an index, and long states. */
  get bytes(): number {
    return this.#slots.bytes;
  }

  /** Counters that were dropped before they expired, to make room. */
  get evicted(): number {
    return this.#evicted;
  }

  /** The slot of the key's counter, valid until the next `set`; undefined if there is none. */
  find(key: CounterKey): number | undefined {
    return this.#index.slotOf(keptKey(key));
  }

  /** The state of the counter in that slot; undefined if it has expired. */
  stateAt(found: number | undefined, nowMs: number): State | undefined {
    return found !== undefined && this.#slots.expiresAtMs(found) > nowMs ? this.#slots.stateAt(found) : undefined;
  }

  /** Up to `count` keys from a position; positions change as counters are added and removed. */
  keys(from: number, count: number): readonly CounterKey[] {
    const end = Math.min(from + count, this.#slots.size);
    return Array.from({ length: Math.max(end - from, 0) }, (_, at) => this.#slots.keyAt(from + at));
  }

  /** Stores a step's state in the counter that `find` returned for this key; drops it if nothing is left to keep. */
  set(key: CounterKey, found: number | undefined, { state, ttlMs }: Kept, nowMs: number): void {
    if (ttlMs <= 0) {
      if (found !== undefined) this.#forget(found, found);
      return;
    }
    if (found !== undefined) this.#slots.mark(found, true);
    const slot = found ?? this.#add(inOnePiece(keptKey(key)), nowMs);
    this.#slots.keep(slot, state, nowMs + ttlMs);
    if (this.#slots.bytes > this.#maxBytes) this.#shrinkBeside(slot, nowMs);
  }

  /** Drops all counters whose keys begin with this. */
  drop(start: string): void {
    for (let slot = this.#slots.size - 1; slot >= 0; slot--)
      if (this.#slots.keyAt(slot).startsWith(start)) this.#forget(slot, slot);
  }

  clear(): void {
    this.#index = createKeyIndex(this.#maxCounters);
    this.#slots = new CounterSlots();
    this.#hand = 0;
  }

  /** A slot for a new key: that of the first counter that was dropped, if any. */
  #add(key: CounterKey, nowMs: number): number {
    const slots = this.#slots;
    const isFull = slots.size >= this.#maxCounters || slots.bytes + slotBytes(key.length, false) > this.#maxBytes;
    let own: number | undefined;
    for (let passed = 0; slots.size > 0 && (passed < 2 || (isFull && own === undefined)); passed++) {
      const old = this.#pass(nowMs, isFull && own === undefined, passed);
      if (old === undefined || old === own) continue;
      if (own !== undefined) {
        own = this.#forget(old, own);
        continue;
      }
      own = old;
      this.#index.delete(slots.keyAt(own));
      slots.replace(own, key);
    }
    own ??= slots.add(key);
    this.#index.add(key, own);
    return own;
  }

  /** Drops other counters until the bytes fit, or only this one is left. */
  #shrinkBeside(slot: number, nowMs: number): void {
    let own = slot;
    let passed = 0;
    while (this.#slots.bytes > this.#maxBytes && this.#slots.size > 1) {
      const old = this.#pass(nowMs, true, passed++);
      if (old === undefined || old === own) continue;
      own = this.#forget(old, own);
      passed = 0;
    }
  }

  /**
   * Moves the hand past one counter.
   *
   * @param passed  the number of counters passed since the last drop
   * @returns  the counter's slot if it must be dropped
   */
  #pass(nowMs: number, isFull: boolean, passed: number): number | undefined {
    const slot = this.#hand < this.#slots.size ? this.#hand : 0;
    this.#hand = slot + 1;
    const isCold = isFull && (passed >= MAX_SWEEP || !this.#slots.isMarked(slot));
    if (this.#slots.expiresAtMs(slot) <= nowMs) return slot;
    if (isCold) {
      this.#evicted++;
      return slot;
    }
    this.#slots.mark(slot, false);
    return undefined;
  }

  /** Drops the slot's counter. Returns the new slot of the counter in slot `own`, since the last counter is moved. */
  #forget(slot: number, own: number): number {
    this.#index.delete(this.#slots.keyAt(slot));
    this.#slots.remove(slot);
    const last = this.#slots.size;
    if (slot < last) this.#index.add(this.#slots.keyAt(slot), slot);
    return own === last ? slot : own;
  }
}

/** Average number of keys in a Map, which moves all its keys when it grows or shrinks: tens of microseconds. */
const SHARD_KEYS = 1_024;

/**
 * Finds a counter's slot by its key. Many small Maps instead of a large one, which would block for tens of milliseconds whenever it grows. A client that
 * chooses keys of a single shard only gets the behaviour of a large Map: Maps hash with a secret.
 *
 * @param maxKeys  the maximum number of keys to expect
 */
function createKeyIndex(maxKeys: number) {
  const shards = Array.from(
    { length: 2 ** Math.ceil(Math.log2(Math.max(maxKeys / SHARD_KEYS, 1))) },
    () => new Map<CounterKey, number>(),
  );
  const findShard = (key: CounterKey) => shards[hash(key) & (shards.length - 1)];
  return {
    slotOf: (key: CounterKey) => findShard(key)?.get(key),
    add(key: CounterKey, slot: number): void {
      findShard(key)?.set(key, slot);
    },
    delete(key: CounterKey): void {
      findShard(key)?.delete(key);
    },
  };
}

/** A 32-bit hash that all characters affect, also in its low bits: unmixed, consecutive keys would be too regular. */
function hash(key: CounterKey): number {
  let mixed = 0;
  for (let at = 0; at < key.length; at++) mixed = (Math.imul(mixed, 31) + key.charCodeAt(at)) | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d);
  return mixed ^ (mixed >>> 12);
}
