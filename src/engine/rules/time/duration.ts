import { format } from '../read/format.ts';

const pattern = new RegExp(format.rate_limit.window.pattern); // the pattern of all durations
const windowUnitMs: Readonly<Record<string, number>> = { ms: 1, s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7, w: 6.048e8 };

/** Milliseconds of a duration; undefined if it is invalid. */
export function durationMs(written: string): number | undefined {
  if (!pattern.test(written)) return undefined;
  const parts = [...written.matchAll(/(\d+)([a-z]+)/g)];
  return parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (windowUnitMs[unit] ?? 0), 0);
}
