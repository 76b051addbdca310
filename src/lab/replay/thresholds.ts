import type { Figures } from './figures.ts';

/** Upper bounds for the results of a replay; absent: unbounded. */
export interface Thresholds {
  /** Shares of all requests, 0 to 1. */
  readonly maxRefused?: number;
  readonly maxNewlyRefused?: number;
  /** The number of keys. */
  readonly maxNewlyHurt?: number;
}

/** The thresholds that are exceeded, or that could not be checked for lack of data, one text each. */
export function exceeded({ rules, against, change }: Figures, thresholds: Thresholds): readonly string[] {
  const { maxRefused, maxNewlyRefused, maxNewlyHurt } = thresholds;
  const last = against ?? rules;
  const isNewlySet = maxNewlyRefused !== undefined || maxNewlyHurt !== undefined;
  if ((isNewlySet || maxRefused !== undefined) && last.requests === 0)
    return ['no request was replayed: the thresholds cannot be checked'];
  const found: string[] = [];
  if (isNewlySet && (change?.compared ?? 0) === 0)
    found.push('nothing was compared: new refusals require --against, or a recording with answers');
  const check = (what: string, count: number, of: number, most: number | undefined): void => {
    if (most === undefined || count <= most * of) return;
    found.push(`${count} of ${of} requests ${what}, more than ${percent(most)}`);
  };
  check('refused', last.refused, last.requests, maxRefused);
  check('newly refused', change?.newlyRefused ?? 0, change?.compared ?? 0, maxNewlyRefused);
  if (maxNewlyHurt !== undefined && change && change.keysNewlyHurt > maxNewlyHurt)
    found.push(`${change.keysNewlyHurt} keys newly hurt, more than ${maxNewlyHurt}`);
  return found;
}

/** `0.1 %` */
export const percent = (part: number): string => `${Number((part * 100).toPrecision(3))} %`;
