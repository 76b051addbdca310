export const KIB = 1_024;
export const MIB = 1_048_576;

/** The median: the middle number, or the mean of the two in the middle; NaN for an empty list. */
export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const below = sorted[Math.ceil(sorted.length / 2) - 1] ?? Number.NaN;
  const above = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  return (below + above) / 2;
}

/** A share from 0 to 1 as a percentage. */
export const percent = (share: number, digits = 1): string => `${(100 * share).toFixed(digits)} %`;

/** The numbers from 0 to count - 1. */
export const range = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);
