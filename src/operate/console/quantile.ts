/**
 * Estimates a quantile from a histogram, assuming that durations are spread evenly within a bucket. 0: there were none.
 *
 * @param counts    per bucket, not cumulative
 * @param boundsMs  upper bounds; the last bucket has none, and counts as its lower bound
 */
export function quantileMs(quantile: number, counts: readonly number[], boundsMs: readonly number[]): number {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return 0;
  let left = quantile * total;
  for (const [at, count] of counts.entries()) {
    const lower = boundsMs[at - 1] ?? 0;
    const upper = boundsMs[at] ?? lower;
    if (count >= left && count > 0) return Math.round((lower + ((upper - lower) * left) / count) * 100) / 100;
    left -= count;
  }
  return boundsMs.at(-1) ?? 0;
}
