import { algorithmFor } from '../algorithms/index.ts';
import type { Decision, State } from '../algorithms/limit.ts';
import type { Clock } from '../clock.ts';
import type { CounterKey } from './key.ts';
import type { Hit, Store } from './store.ts';

interface Counter {
  state: State;
  expiresAtMs: number;
  /** Hit since the sweep last came by. */
  recentlyUsed: boolean;
}

/** Counters looked at, to find one to forget, before the next is taken whatever its merit. */
const MAX_SWEEP = 16;

/**
 * Counters in a Map: one process, gone on restart. Atomic because nothing between read and write awaits.
 *
 * At most `maxCounters` are kept. A hand goes round them, two for each new counter: it drops what has expired and, when
 * there is no room, what was not hit since it last came by (the CLOCK approximation of least recently used), so that a
 * flood of new keys displaces other cold keys before a busy one.
 *
 * @see https://en.wikipedia.org/wiki/Page_replacement_algorithm#Clock
 */
export function createMemoryStore(clock: Clock, { maxCounters }: { readonly maxCounters: number }): Store {
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
      if (counter.expiresAtMs <= nowMs || (full && (!counter.recentlyUsed || looked >= MAX_SWEEP)))
        counters.delete(key);
      else counter.recentlyUsed = false;
    }
  };

  const hitOne = ({ key, limit, hits }: Hit, nowMs: number): Decision => {
    const algorithm = algorithmFor(limit);
    const counter = counters.get(key);
    const known = counter && counter.expiresAtMs > nowMs ? counter.state : undefined;
    const { accepted, state, ttlMs } = algorithm.step(limit, known, nowMs, hits);
    if (counter) {
      counter.state = state;
      counter.expiresAtMs = nowMs + ttlMs;
      counter.recentlyUsed = true;
    } else {
      makeRoom(nowMs);
      counters.set(key, { state, expiresAtMs: nowMs + ttlMs, recentlyUsed: false });
    }
    return algorithm.describe(limit, state, nowMs, hits, accepted);
  };

  return {
    async apply(hits) {
      const nowMs = clock();
      return hits.map((hit) => hitOne(hit, nowMs));
    },
    state: () => ({ ready: true }),
    async close() {
      counters.clear();
    },
  };
}
