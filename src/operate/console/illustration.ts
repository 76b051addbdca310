import { rateFor } from '../../engine/algorithms/index.ts';
import type { State } from '../../engine/algorithms/limit.ts';
import { fullCapacity, isRateLimit, type Limit } from '../../engine/holds/limits.ts';
import type { Illustration } from '../answers/rules.ts';

/** Sixtieths of a window: a burst at the end of the first, another at the start of the second, then a steady rate. */
const ARRIVALS = [43, 46, 49, 52, 55, 58, 62, 65, 68, 71, 74, 77, 90, 100, 110, 120, 130, 140, 150, 160, 170];
const PARTS = 60;
/** The part of the limit that one request takes. */
const REQUESTS_OF_A_LIMIT = 5;

/**
 * What a limit decides about an example over three windows.
 *
 * @returns undefined  the limit is not on a rate
 */
export function illustrate(limit: Limit, nowMs: number): Illustration | undefined {
  if (!isRateLimit(limit)) return undefined;
  const { step, describe } = rateFor(limit);
  const { windowMs } = limit;
  const capacity = fullCapacity(limit);
  const hits = Math.max(Math.round(capacity / REQUESTS_OF_A_LIMIT), 1);
  const startMs = Math.floor(nowMs / windowMs) * windowMs;
  let state: State | undefined;
  const arrivals = ARRIVALS.map((at) => {
    const atMs = Math.round((at * windowMs) / PARTS);
    const stepped = step(limit, state, startMs + atMs, hits, true);
    state = stepped.state;
    const outcome = { hits, accepted: stepped.accepted, charged: true } as const;
    const { hitsBefore } = describe(limit, stepped.report ?? state, startMs + atMs, outcome);
    return { atMs, before: hitsBefore, passed: stepped.accepted };
  });
  return { windowMs, windows: 3, capacity, hits, arrivals };
}
