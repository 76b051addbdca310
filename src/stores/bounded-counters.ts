import type { State, Step } from '../algorithms/limit.ts';
import { createCounterSlots } from './counter-slots.ts';
import type { CounterKey } from './key.ts';
import { createKeyIndex } from './key-index.ts';

/** Counters by key, so many at most; each until it expires. */
export interface BoundedCounters {
  /** Where the key's counter is, until the next `set`; undefined where there is none. */
  find(key: CounterKey): number | undefined;
  /** What the counter found there remembers; undefined where it has expired. */
  stateAt(found: number | undefined, nowMs: number): State | undefined;
  /** Keeps what a step left on the counter that was found under this key; forgets it where nothing is left to remember. */
  set(key: CounterKey, found: number | undefined, step: Step, nowMs: number): void;
  clear(): void;
}

/** Counters looked at, to find one to forget, before the next is taken whatever its merit. */
const MAX_SWEEP = 16;

/**
 * A hand goes round the counters, two for each new one: it drops what has expired and, when there is no room, what was not
 * hit since it last came by (the CLOCK approximation of least recently used), so that a flood of new keys displaces other
 * cold keys before a busy one. So no hit waits for more than a few others to be dropped, however many expire at once.
 *
 * @see https://en.wikipedia.org/wiki/Page_replacement_algorithm#Clock
 */
export function createBoundedCounters(maxCounters: number): BoundedCounters {
  let index = createKeyIndex(maxCounters);
  let slots = createCounterSlots();
  let size = 0;
  /** The slot that is looked at next. */
  let hand = 0;

  const add = (key: CounterKey): number => {
    const own = flat(key);
    const slot = slots.take(own);
    index.add(own, slot);
    size++;
    return slot;
  };

  const forget = (key: CounterKey, slot: number): void => {
    index.delete(key);
    slots.release(slot);
    size--;
  };

  const makeRoom = (nowMs: number): void => {
    for (let looked = 0; size > 0 && (looked < 2 || size >= maxCounters); looked++) {
      const slot = hand < slots.end() ? hand : 0;
      hand = slot + 1;
      const key = slots.keyOf(slot);
      if (key === undefined) continue;
      const cold = size >= maxCounters && (looked >= MAX_SWEEP || !slots.isMarked(slot));
      if (cold || slots.expiresAtMs(slot) <= nowMs) forget(key, slot);
      else slots.mark(slot, false);
    }
  };

  return {
    find: (key) => index.slotOf(key),
    stateAt: (found, nowMs) =>
      found !== undefined && slots.expiresAtMs(found) > nowMs ? slots.stateOf(found) : undefined,
    set(key, found, { state, ttlMs }, nowMs) {
      if (ttlMs <= 0) {
        if (found !== undefined) forget(key, found);
        return;
      }
      if (found === undefined) makeRoom(nowMs);
      else slots.mark(found, true);
      slots.keep(found ?? add(key), state, nowMs + ttlMs);
    },
    clear() {
      index = createKeyIndex(maxCounters);
      slots = createCounterSlots();
      size = 0;
    },
  };
}

/**
 * The same text in one piece. A key comes as a tree of the parts that it was put together from, which keeps three times its
 * length alive; V8 writes a joined text anew.
 */
const flat = (key: CounterKey): CounterKey => [key.slice(0, 1), key.slice(1)].join('') as CounterKey; // equal to the key
