import { unitMs } from '../../algorithms/limit.ts';
import { format } from '../read/format.ts';

const pattern = new RegExp(format.rate_limit.window.pattern); // the pattern of all durations
const windowUnitMs: Readonly<Record<string, number>> = { ms: 1, s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7, w: 6.048e8 };

/** Milliseconds of a duration; undefined: invalid. */
export function durationMs(written: string): number | undefined {
  if (!pattern.test(written)) return undefined;
  const parts = [...written.matchAll(/(\d+)([a-z]+)/g)];
  return parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (windowUnitMs[unit] ?? 0), 0);
}

/** Bounds of the time that a slot may be held, or hits be reserved. */
const MIN_TTL_MS = 100;
const MAX_TTL_MS = unitMs.DAY;

export const isTtl = (ms: number | undefined): ms is number => ms !== undefined && ms >= MIN_TTL_MS && ms <= MAX_TTL_MS;
