import { performance } from 'node:perf_hooks'; // the global is a getter, which is slow

/**
 * Milliseconds since the Unix epoch, whole. Handed in wherever time matters, so that a test can replay any schedule.
 */
export type Clock = () => number;

/**
 * Milliseconds since some moment, on a clock that never runs backwards: for how long something lasts. Handed in as the
 * clock is.
 */
export type Monotonic = () => number;

/** Of this process. */
export const monotonicMs: Monotonic = () => performance.now();
