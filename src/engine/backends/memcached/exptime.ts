/** The longest time that memcached accepts as relative; longer ones are interpreted as dates. */
const MAX_SPAN_S = 30 * 24 * 3600;
/** The last date that memcached supports, in 2038. */
const MAX_DATE_S = 2 ** 31 - 1;

/**
 * The most that memcached's clock may lag: it is read about once per second, in whole seconds, and advances by two when
 * a reading just misses one. A counter with a second to live could otherwise be gone at once.
 */
const CLOCK_LAG_S = 2;

/**
 * When memcached may drop a counter: whole seconds, from now or since the epoch; negative: at once, since nothing is
 * left to keep.
 */
export function exptimeOf(ttlMs: number, nowMs: number): number {
  if (ttlMs <= 0) return -1;
  const seconds = Math.ceil(ttlMs / 1000) + CLOCK_LAG_S;
  return seconds <= MAX_SPAN_S ? seconds : Math.min(Math.ceil(nowMs / 1000) + seconds, MAX_DATE_S);
}
