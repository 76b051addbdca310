const unitsMs: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 };

/**
 * Parses `grpc-timeout`: at most eight digits and a unit.
 *
 * @returns milliseconds; Infinity if absent; NaN if malformed
 * @example `20m` is 20, `1S` is 1000
 */
export function parseTimeout(text: string | undefined): number {
  if (text === undefined) return Number.POSITIVE_INFINITY;
  const [, digits = '', unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(text) ?? [];
  return Number(digits) * (unitsMs[unit] ?? Number.NaN);
}
