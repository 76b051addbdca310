import {
  type AnyLimit,
  type Charge,
  hitsToFit,
  MAX_COUNT,
  NEVER_MS,
  type State,
  type Step,
  takenBy,
} from '../algorithms/limit.ts';
import { windowed, windowSize } from '../algorithms/window.ts';
import type { NamedCounting } from './counting.ts';

/** `windowMs` is the time for which a store keeps a counter that nobody uses. */
export interface AllocationLimit extends AnyLimit {
  readonly algorithm: 'allocation';
}

/**
 * Allocation: hits stay taken until they are given back, like the friends of a user or the machines of a project. Twin
 * of allocation.lua. State: hits taken. Refused hits are not taken, so callers give back only what they were granted.
 *
 * @param nowMs   has no effect: no hit comes back with time
 * @param hits    0 peeks: refused if a single hit would be; a negative number gives hits back, never below 0
 * @param charge  false to leave the counter unchanged and only return the outcome
 * @see https://cloud.google.com/docs/quotas/overview  allocation quotas
 */
function step(limit: AllocationLimit, state: State | undefined, _nowMs: number, hits: number, charge: Charge): Step {
  const [before = 0] = state ?? [];
  const accepted = hits < 0 || before + hitsToFit(hits) <= windowSize(limit);
  const isTaken = charge === 'regardless' || (charge && accepted);
  return finishStep(limit, accepted, isTaken ? Math.min(Math.max(before + hits, 0), MAX_COUNT) : before);
}

const finishStep = ({ windowMs }: AllocationLimit, accepted: boolean, taken: number): Step => ({
  accepted,
  state: [taken],
  ttlMs: taken > 0 ? windowMs : 0,
});

/** The row of allocations. */
export const allocation: NamedCounting<AllocationLimit> = {
  counts: 'allocated',
  notARate: 'allocation limits what is held, not a rate',
  words: ({ requestsPerUnit }) => `${requestsPerUnit} until given back`,
  keys: [],
  parse: (numbers) => ({ ...numbers, counter: 'allocation', algorithm: 'allocation' }),
  write: () => [],
  list: () => ({}),
  capacity: windowed.capacity,
  longestMemoryMs: ({ windowMs }) => windowMs,
  step,
  describe(limit, [taken = 0], _nowMs, outcome) {
    const { accepted } = outcome;
    const own = takenBy(outcome);
    return {
      code: accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore: Math.max(taken - own, 0),
      limitRemaining: Math.max(limit.requestsPerUnit - taken, 0),
      durationUntilResetMs: taken > 0 ? limit.windowMs : 0,
      retryAfterMs: accepted ? 0 : NEVER_MS,
      delayMs: 0,
      soft: accepted && own > 0 && taken > limit.requestsPerUnit,
    };
  },
  refund: (limit, state, _nowMs, hits) => finishStep(limit, true, Math.max((state?.[0] ?? 0) - hits, 0)),
  draw: () => ({ kind: 'level' }),
  state: { length: 1 },
  script: new URL('./allocation.lua', import.meta.url),
  scriptArgs: (limit) => [windowSize(limit), limit.windowMs],
};
