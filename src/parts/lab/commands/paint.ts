/** Colours of a terminal. */
export interface Paint {
  good(text: string): string;
  bad(text: string): string;
  dim(text: string): string;
  strong(text: string): string;
}

const painted =
  (code: number) =>
  (text: string): string =>
    `\u001b[${code}m${text}\u001b[0m`;

const plain = (text: string): string => text;

/** @see https://no-color.org */
export const paintFor = (isTerminal: boolean, noColor: string | undefined): Paint =>
  isTerminal && !noColor
    ? { good: painted(32), bad: painted(31), dim: painted(2), strong: painted(1) }
    : { good: plain, bad: plain, dim: plain, strong: plain };

/** `1.2 s`, `4 min 30 s`, `now`; null: never. Rounded up. */
export function duration(ms: number | null): string {
  if (ms === null) return 'never';
  if (ms <= 0) return 'now';
  if (ms < 1_000) return `${ms} ms`;
  if (ms < 120_000) return `${Math.ceil(ms / 100) / 10} s`;
  if (ms < 3_600_000) return inUnits(Math.ceil(ms / 1_000), 60, ['min', 's']);
  if (ms < 172_800_000) return inUnits(Math.ceil(ms / 60_000), 60, ['h', 'min']);
  return inUnits(Math.ceil(ms / 3_600_000), 24, ['d', 'h']);
}

const inUnits = (small: number, size: number, [large, rest]: readonly [string, string]): string =>
  `${Math.floor(small / size)} ${large}${small % size === 0 ? '' : ` ${small % size} ${rest}`}`;
