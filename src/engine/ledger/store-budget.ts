import type { Spend } from '../algorithms/limit.ts';
import type { RunOptions } from '../backends/backend.ts';

/** The part of a caller's deadline that is kept for everything but the store. */
const KEPT_SHARE = 1 / 4;

/** Maximum time for the store. */
const LONGEST_MS = 1_000;
/** The time for the store if the caller has set no deadline. */
const WITHOUT_DEADLINE_MS = 250;

/**
 * The time that the store may take for a request, in whole milliseconds. Not positive: there is none left.
 *
 * @param callerTimeoutMs  the time until the caller's deadline; Infinity if it set none
 */
export type StoreBudget = (callerTimeoutMs: number) => number;

/** How the store is called for a caller with this deadline. @param callerTimeoutMs  as of `StoreBudget` */
export const storeCall = (spend: Spend, storeBudget: StoreBudget, callerTimeoutMs: number): RunOptions => ({
  spend,
  timeoutMs: storeBudget(callerTimeoutMs),
  longestMs: callerTimeoutMs * (1 - KEPT_SHARE),
});

/**
 * @param latenessMs      the present timer lag of this process, which an answer may be late by
 * @param storeTimeoutMs  the operator's bound; default: a second, or 250 ms without a deadline
 */
export const createStoreBudget =
  (latenessMs: () => number, storeTimeoutMs: number | undefined): StoreBudget =>
  (callerTimeoutMs) => {
    if (callerTimeoutMs === Number.POSITIVE_INFINITY) return storeTimeoutMs ?? WITHOUT_DEADLINE_MS;
    const keptMs = Math.max(callerTimeoutMs * KEPT_SHARE, latenessMs());
    return Math.min(Math.floor(callerTimeoutMs - keptMs), storeTimeoutMs ?? LONGEST_MS);
  };
