import { rfc3339 } from '../../../base/times.ts';
import type { ShownLimit } from './report-data.ts';

/** `12,345` */
export const count = (number: number): string => number.toLocaleString('en-US');

/** `1 key`, `2 keys`. */
export const counted = (number: number, thing: string): string => `${count(number)} ${thing}${number === 1 ? '' : 's'}`;

/** `0.12 %`; never 0 for a part above 0, nor 100 for less than the whole. */
export function share(part: number, whole: number): string {
  if (part === 0 || whole === 0) return '0 %';
  const percent = (100 * part) / whole;
  if (percent < 0.01) return '<0.01 %';
  if (part < whole && percent > 99.9) return '>99.9 %';
  return `${percent < 1 ? percent.toFixed(2) : percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

const UNITS = [
  [604_800_000, 'week'],
  [86_400_000, 'day'],
  [3_600_000, 'hour'],
  [60_000, 'minute'],
  [1_000, 'second'],
] as const;

/** `60 a minute`, `100 in 10 seconds`. */
export function limitText({ limit, windowMs }: ShownLimit): string {
  const [unitMs, unit] = UNITS.find(([ms]) => windowMs % ms === 0) ?? [1, 'ms'];
  const units = windowMs / unitMs;
  if (units !== 1) return `${count(limit)} in ${count(units)} ${unit}${unit === 'ms' ? '' : 's'}`;
  return `${count(limit)} ${unit === 'hour' ? 'an' : 'a'} ${unit}`;
}

/** In UTC: `2026-11-22 09:17:16`. */
export const moment = (atMs: number): string => rfc3339(atMs).slice(0, 19).replace('T', ' ');

/** The label of a tick, if ticks are `everyMs` apart: `09:17`, `09:17:16`, `22 Nov`. */
export function tickText(atMs: number, everyMs: number): string {
  const [date = '', time = ''] = rfc3339(atMs).split('T');
  if (everyMs >= 86_400_000) return `${Number(date.slice(8))} ${MONTHS[Number(date.slice(5, 7)) - 1]}`;
  return everyMs >= 60_000 ? time.slice(0, 5) : everyMs >= 1_000 ? time.slice(0, 8) : time.slice(6, 11);
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'] as const;
