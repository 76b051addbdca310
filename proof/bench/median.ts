/** The median: the middle number, or the mean of the two in the middle; NaN for an empty list. */
export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const below = sorted[Math.ceil(sorted.length / 2) - 1] ?? Number.NaN;
  const above = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  return (below + above) / 2;
}
