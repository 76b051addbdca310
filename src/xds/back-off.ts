/** How long to wait before the next try, after tries that failed. */
export interface BackOff {
  readonly initialMs: number;
  /** No wait is longer. */
  readonly maxMs: number;
  /** Each wait is shortened at random, by up to half, so that a fleet does not come at once. */
  readonly jitter: boolean;
}

/** The shortest interval, whatever is set: a control plane that ends every stream must not keep a core busy. */
const MIN_INTERVAL_MS = 100;

/**
 * Whole milliseconds to wait after so many failures in a row: `initialMs` after the first, twice as long after each more, up to `maxMs`.
 * 10 s and 60 s without jitter: 10, 20, 40, 60, 60 …
 *
 * @param failures  at least 1
 * @param random  0 to below 1
 */
export function waitMs({ initialMs, maxMs, jitter }: BackOff, failures: number, random: () => number): number {
  const longestMs = Math.max(maxMs, MIN_INTERVAL_MS);
  const intervalMs = Math.min(Math.max(initialMs, MIN_INTERVAL_MS) * 2 ** (failures - 1), longestMs);
  return Math.ceil(jitter ? intervalMs * (1 - random() / 2) : intervalMs);
}
