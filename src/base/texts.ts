import { rfc3339 } from './times.ts';

/** `12,345` */
export const count = (number: number): string => number.toLocaleString('en-US');

/** `1 key`, `2 keys`. */
export const counted = (number: number, thing: string): string => `${count(number)} ${thing}${number === 1 ? '' : 's'}`;

/** Formats a fraction as in `0.12 %`, never as 0 for a part above 0 nor as 100 for less than the whole. */
export function share(part: number, whole: number): string {
  if (part === 0 || whole === 0) return '0 %';
  const percent = (100 * part) / whole;
  if (percent < 0.01) return '<0.01 %';
  if (part < whole && percent > 99.9) return '>99.9 %';
  return `${percent < 1 ? percent.toFixed(2) : percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** `0.1 %` */
export const percent = (part: number): string => `${Number((part * 100).toPrecision(3))} %`;

/** A duration as in rules. */
export function writeDuration(ms: number): string {
  const [unit, length] = (
    [
      ['d', 86_400_000],
      ['h', 3_600_000],
      ['m', 60_000],
      ['s', 1_000],
    ] as const
  ).find(([, length]) => ms % length === 0) ?? ['ms', 1];
  return `${ms / length}${unit}`;
}

/** Formats a time in UTC as in `2026-11-22 09:17:16`. */
export const moment = (atMs: number): string => rfc3339(atMs).slice(0, 19).replace('T', ' ');

/** Numbers, also with a unit or as a range. */
const NUMBER = /^[-+\d.,?]*( ms| %)?$|^\d+ to \d+$/;

/** Aligns columns, those with numbers to the right. */
export function table(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0))) ?? [];
  const isNumber = widths.map((_, at) => rows.slice(1).every((row) => NUMBER.test(row[at] ?? '')));
  return rows.map((row) =>
    row
      .map((text, at) => (isNumber[at] ? text.padStart(widths[at] ?? 0) : text.padEnd(widths[at] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}
