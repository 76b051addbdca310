/** The longest time that memcached takes for one; what is longer, it takes for a date. */
const MAX_SPAN_S = 30 * 24 * 3600;
/** The last date that it knows, in 2038. */
const MAX_DATE_S = 2 ** 31 - 1;

/**
 * By how much memcached's clock may be behind: it is read about once a second, in whole seconds, and goes on by two
 * when a reading just misses one. What is to be kept for a second could else be gone at once.
 */
const CLOCK_LAG_S = 2;

/**
 * When memcached may forget a counter: whole seconds, from now or since the epoch; at once where nothing is left to
 * keep.
 */
export function exptimeOf(ttlMs: number, nowMs: number): number {
  if (ttlMs <= 0) return -1;
  const seconds = Math.ceil(ttlMs / 1000) + CLOCK_LAG_S;
  return seconds <= MAX_SPAN_S ? seconds : Math.min(Math.ceil(nowMs / 1000) + seconds, MAX_DATE_S);
}
