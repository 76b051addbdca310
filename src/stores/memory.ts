import { algorithmFor } from '../algorithms/index.ts';
import type { Decision, Limit, Outcome, State, Step } from '../algorithms/limit.ts';
import type { Clock } from '../clock.ts';
import { type BoundedCounters, createBoundedCounters } from './bounded-counters.ts';
import type { CounterKey } from './key.ts';
import { askedTogether, type Hit, type Store } from './store.ts';

/** Counters in this process: gone on restart. Atomic because nothing between read and write awaits. */
export function createMemoryStore(clock: Clock, { maxCounters }: { readonly maxCounters: number }): Store {
  const counters = createBoundedCounters(maxCounters);
  return {
    atomic: 'request',
    async apply(hits, how) {
      const nowMs = clock();
      const [only] = hits;
      if (only && hits.length === 1 && how.spend === 'each') return [spend(counters, only, nowMs)];
      if (how.spend === 'each') return hits.map((hit) => spend(counters, hit, nowMs));
      const accepted = tryAll(counters, hits, nowMs);
      if (hits.every(({ blocks }, at) => accepted[at] || !blocks))
        return hits.map((hit) => spend(counters, hit, nowMs));
      const mayCharge = how.spend === 'spare_others';
      const together = askedTogether(hits);
      return hits.map((hit, at) => spare(counters, hit, together[at] ?? 0, accepted[at] ?? false, mayCharge, nowMs));
    },
    state: () => ({ ready: true }),
    async close() {
      counters.clear();
    },
  };
}

function spend(counters: BoundedCounters, hit: Hit, nowMs: number): Decision {
  const found = counters.find(hit.key);
  const step = run(hit, counters.stateAt(found, nowMs), nowMs, true);
  counters.set(hit.key, found, step, nowMs);
  return decisionOf(hit.limit, step, nowMs, { hits: hit.hits, accepted: step.accepted, charged: true });
}

/** Which of the hits would be accepted, if they were all spent in this order. */
function tryAll(counters: BoundedCounters, hits: readonly Hit[], nowMs: number): readonly boolean[] {
  const states = new Map<CounterKey, State>();
  return hits.map((hit) => {
    const before = states.get(hit.key) ?? counters.stateAt(counters.find(hit.key), nowMs);
    const { accepted, state } = run(hit, before, nowMs, true);
    states.set(hit.key, state);
    return accepted;
  });
}

/**
 * A hit of a request that is refused: at most its own refusal is counted.
 *
 * @param asked  the request's hits on this counter so far: see `askedTogether`
 */
function spare(
  counters: BoundedCounters,
  hit: Hit,
  asked: number,
  accepted: boolean,
  mayCharge: boolean,
  nowMs: number,
): Decision {
  const found = counters.find(hit.key);
  const state = counters.stateAt(found, nowMs);
  const refusal = run(hit, state, nowMs, true);
  if (mayCharge && !accepted && !refusal.accepted) {
    counters.set(hit.key, found, refusal, nowMs);
    return decisionOf(hit.limit, refusal, nowMs, { hits: hit.hits, accepted, charged: true });
  }
  const look = run({ ...hit, hits: asked }, state, nowMs, false);
  return decisionOf(hit.limit, look, nowMs, { hits: asked, accepted, charged: false });
}

const run = ({ limit, hits }: Hit, state: State | undefined, nowMs: number, charge: boolean): Step =>
  algorithmFor(limit).step(limit, state, nowMs, hits, charge);

const decisionOf = (limit: Limit, { state, report = state }: Step, nowMs: number, outcome: Outcome): Decision =>
  algorithmFor(limit).describe(limit, report, nowMs, outcome);
