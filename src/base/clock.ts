import { performance } from 'node:perf_hooks'; // the global is a getter, which is slow

/**
 * Milliseconds since the Unix epoch, an integer. Injected wherever time matters, so that tests can replay any schedule.
 */
export type Clock = () => number;

/** Milliseconds on a clock that never runs backwards, since an arbitrary moment. Injected like `Clock`. */
export type Monotonic = () => number;

/** The monotonic clock of this process. */
export const monotonicMs: Monotonic = () => performance.now();
