/** Exponential back-off between retries. */
export interface BackOff {
  readonly initialMs: number;
  /** The longest wait. */
  readonly maxMs: number;
  /** Shortens each wait at random by up to half, so that a fleet does not reconnect at once. */
  readonly jitter: boolean;
}

/** Lower bound for all settings: a control plane that ends every stream must not keep a core busy. */
const MIN_INTERVAL_MS = 100;

/**
 * The wait before the next attempt, in whole milliseconds: `initialMs` after the first failure, doubled with each
 * further one, up to `maxMs`.
 *
 * @example 10 s and 60 s without jitter: 10, 20, 40, 60, 60 …
 *
 * @param failures  consecutive, at least 1
 * @param random    0 to below 1
 */
export function waitMs({ initialMs, maxMs, jitter }: BackOff, failures: number, random: () => number): number {
  const longestMs = Math.max(maxMs, MIN_INTERVAL_MS);
  const intervalMs = Math.min(Math.max(initialMs, MIN_INTERVAL_MS) * 2 ** (failures - 1), longestMs);
  return Math.ceil(jitter ? intervalMs * (1 - random() / 2) : intervalMs);
}
