import { type Unit, unitMs } from './case.ts';

/**
 * Whether an answer is as expected. Objects may have more keys than expected at the top; `{any}` is any value,
 * `{contains:TEXT}` a text with that part, `{reset:UNIT}` the seconds to the end of the current window, give or take one
 * for the clocks of two machines.
 */
export function isExpected(wanted: unknown, came: unknown, nowMs: number, isTop = true): boolean {
  if (typeof wanted === 'string') return isExpectedText(wanted, came, nowMs);
  if (typeof wanted !== 'object' || wanted === null || typeof came !== 'object' || came === null)
    return wanted === came;
  const [left, right] = [wanted, came] as readonly Readonly<Record<string, unknown>>[];
  const keys = new Set([...Object.keys(wanted), ...(isTop ? [] : Object.keys(came))]);
  return [...keys].every((key) => isExpected(left?.[key], right?.[key], nowMs, false));
}

function isExpectedText(wanted: string, came: unknown, nowMs: number): boolean {
  if (wanted === '{any}') return came !== undefined;
  const contained = /^\{contains:(.*)\}$/s.exec(wanted)?.[1];
  if (contained !== undefined) return String(came).includes(contained);
  const unit = /^\{reset:(\w+)\}$/.exec(wanted)?.[1] as Unit | undefined; // one of the corpus
  if (unit === undefined) return wanted === came;
  const seconds = Math.ceil((unitMs[unit] - (nowMs % unitMs[unit])) / 1_000);
  return Math.abs(Number(String(came).replace(/s$/, '')) - seconds) <= 1;
}
