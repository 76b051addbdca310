import { NEVER_MS } from '../algorithms/limit.ts';
import { waitForMoreMs } from '../holds/limits.ts';
import type { OtherDecision } from './decide.ts';

/** The remaining hits in an answer: never more than the rate shown beside it, although a bucket may hold more. */
export const shownRemaining = ({ limit, decision }: OtherDecision): number =>
  Math.min(decision.limitRemaining, limit.requestsPerUnit);

/**
 * The reset in an answer: the time until a request can pass that could not pass now, else until more hits can. It is the
 * end of a fixed window, and in other algorithms long before the limit is unspent.
 */
export function shownResetMs({ limit, decision }: OtherDecision): number {
  const { code, retryAfterMs, repeatAfterMs, durationUntilResetMs } = decision;
  const nextMs = waitForMoreMs(limit, 1);
  const isAwaited = code === 'OVER_LIMIT' && retryAfterMs !== NEVER_MS;
  // all hits of a fixed window come back together, but a limit of 0 admits none before it ends
  if (nextMs === 0) return isAwaited ? Math.max(retryAfterMs, durationUntilResetMs) : durationUntilResetMs;
  const moreMs = code === 'OVER_LIMIT' ? retryAfterMs : (repeatAfterMs ?? nextMs ?? NEVER_MS);
  return Math.min(moreMs, durationUntilResetMs);
}

/** The decision with the numbers that answers show; itself, if it has these, as that of a fixed window. */
export function shownDecision(given: OtherDecision): OtherDecision['decision'] {
  const { decision } = given;
  const { durationUntilResetMs: untilUnspentMs } = decision;
  const limitRemaining = shownRemaining(given);
  const resetMs = shownResetMs(given);
  if (limitRemaining === decision.limitRemaining && resetMs === untilUnspentMs) return decision;
  return { ...decision, limitRemaining, durationUntilResetMs: resetMs, untilUnspentMs };
}

/** Rounded up, so that a client that waits that long does not retry too early. */
export const toWholeSeconds = (ms: number): number => Math.ceil(ms / 1000);
