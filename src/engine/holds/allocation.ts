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
import { stepped } from '../algorithms/stepped.ts';
import { windowed, windowSize } from '../algorithms/window.ts';
import { compiled } from '../lua/compiled.ts';
import type { NamedCounting } from './counting.ts';

/** `windowMs` is the time for which a store keeps a counter that nobody uses. */
export interface AllocationLimit extends AnyLimit {
  readonly algorithm: 'allocation';
}

interface AllocationNumbers {
  /** Hits that fit, including the soft ones. */
  readonly size: number;
  readonly windowMs: number;
}

/**
 * Allocation: hits stay taken until they are given back, like the friends of a user or the machines of a project.
 * State: hits taken. Refused hits are not taken, so callers give back only what they were granted.
 *
 * @param nowMs   has no effect: no hit comes back with time
 * @param hits    0 peeks: refused if a single hit would be; a negative number gives hits back, never below 0
 * @param charge  false to leave the counter unchanged and only return the outcome
 * @see https://cloud.google.com/docs/quotas/overview  allocation quotas
 */
export function step(
  limit: AllocationNumbers,
  state: State | undefined,
  _nowMs: number,
  hits: number,
  charge: Charge,
): Step {
  const before = state ? (state[0] ?? 0) : 0;
  const accepted = hits < 0 || before + hitsToFit(hits) <= limit.size;
  const isTaken = charge === 'regardless' || (charge && accepted);
  return finishStep(limit, accepted, isTaken ? Math.min(Math.max(before + hits, 0), MAX_COUNT) : before);
}

export function refund(limit: AllocationNumbers, state: State | undefined, _nowMs: number, hits: number): Step {
  return finishStep(limit, true, Math.max((state ? (state[0] ?? 0) : 0) - hits, 0));
}

function finishStep(limit: AllocationNumbers, accepted: boolean, taken: number): Step {
  return { accepted, state: [taken], ttlMs: taken > 0 ? limit.windowMs : 0 };
}

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
  ...stepped({
    compiled: compiled.allocation,
    numbers: (limit: AllocationLimit): AllocationNumbers => ({ size: windowSize(limit), windowMs: limit.windowMs }),
    step,
    refund,
  }),
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
  heldAt: () => ({ first: 0, last: 0, unit: 1 }),
  draw: () => ({ kind: 'level' }),
  state: { length: 1 },
};
