import type { State, Step } from '../algorithms/limit.ts';
import type { CounterKey } from './key.ts';

/** Counters by key, so many at most; each until it expires. */
export interface BoundedCounters {
  get(key: CounterKey, nowMs: number): State | undefined;
  /** Keeps what a step left; forgets the counter where nothing is left to remember. */
  set(key: CounterKey, step: Step, nowMs: number): void;
  clear(): void;
}

interface Counter {
  state: State;
  expiresAtMs: number;
  /** Hit since the hand last came by. */
  recentlyUsed: boolean;
}

/** Counters looked at, to find one to forget, before the next is taken whatever its merit. */
const MAX_SWEEP = 16;

/**
 * A hand goes round the counters, two for each new one: it drops what has expired and, when there is no room, what was not
 * hit since it last came by (the CLOCK approximation of least recently used), so that a flood of new keys displaces other
 * cold keys before a busy one.
 *
 * @see https://en.wikipedia.org/wiki/Page_replacement_algorithm#Clock
 */
export function createBoundedCounters(maxCounters: number): BoundedCounters {
  const counters = new Map<CounterKey, Counter>();
  let hand = counters.entries();

  const next = (): readonly [CounterKey, Counter] => {
    let at = hand.next();
    if (at.done) {
      hand = counters.entries();
      at = hand.next();
    }
    return at.value as [CounterKey, Counter]; // never done: called only when there are counters
  };

  const makeRoom = (nowMs: number): void => {
    for (let looked = 0; counters.size > 0 && (looked < 2 || counters.size >= maxCounters); looked++) {
      const [key, counter] = next();
      const full = counters.size >= maxCounters;
      const cold = !counter.recentlyUsed || looked >= MAX_SWEEP;
      if (counter.expiresAtMs <= nowMs || (full && cold)) counters.delete(key);
      else counter.recentlyUsed = false;
    }
  };

  return {
    get(key, nowMs) {
      const counter = counters.get(key);
      return counter && counter.expiresAtMs > nowMs ? counter.state : undefined;
    },
    set(key, { state, ttlMs }, nowMs) {
      const counter = counters.get(key);
      if (ttlMs <= 0) {
        counters.delete(key);
      } else if (counter) {
        counter.state = state;
        counter.expiresAtMs = nowMs + ttlMs;
        counter.recentlyUsed = true;
      } else {
        makeRoom(nowMs);
        counters.set(key, { state, expiresAtMs: nowMs + ttlMs, recentlyUsed: false });
      }
    },
    clear() {
      counters.clear();
      hand = counters.entries();
    },
  };
}
