import { type Charge, MAX_COUNT, type State, type Step } from '../../../engine/algorithms/limit.ts';

/** A fixed window under a key that names it, in envoyproxy/ratelimit's format: see requests.ts. */
interface SharedWindowNumbers {
  readonly capacity: number;
  /** How long the count is kept after a hit. */
  readonly ttlMs: number;
}

export function step(
  limit: SharedWindowNumbers,
  state: State | undefined,
  _nowMs: number,
  hits: number,
  charge: Charge,
): Step {
  const before = state ? (state[0] ?? 0) : 0;
  const after = Math.min(Math.max(before + hits, 0), MAX_COUNT);
  return { accepted: hits < 0 || after <= limit.capacity, state: [charge ? after : before], ttlMs: limit.ttlMs };
}

/** Hits only come back to their own window, since the key names it. */
export function refund(limit: SharedWindowNumbers, state: State | undefined, nowMs: number, hits: number): Step {
  const next: Step = step(limit, state, nowMs, -hits, true);
  return { accepted: true, state: next.state, ttlMs: next.ttlMs };
}
