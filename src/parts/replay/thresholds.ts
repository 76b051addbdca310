import { counted, percent } from '../../base/texts.ts';
import type { Figures } from './figures.ts';

/** Upper bounds for the results of a replay; unbounded by default. */
export interface Thresholds {
  /** Fractions of all requests, 0 to 1. */
  readonly maxRefused?: number;
  readonly maxNewlyRefused?: number;
  /** Number of keys. */
  readonly maxNewlyHurt?: number;
}

/** Lists the thresholds that are exceeded, or cannot be checked for lack of data, one text each. */
export function exceeded({ rules, against, change }: Figures, thresholds: Thresholds): readonly string[] {
  const { maxRefused, maxNewlyRefused, maxNewlyHurt } = thresholds;
  const last = against ?? rules;
  const isNewlySet = maxNewlyRefused !== undefined || maxNewlyHurt !== undefined;
  if ((isNewlySet || maxRefused !== undefined) && last.requests === 0)
    return ['no request was replayed, so the thresholds cannot be checked'];
  const found: string[] = [];
  if (isNewlySet && (change?.compared ?? 0) === 0)
    found.push(
      'no answers to compare with: --max-newly-refused and --max-newly-hurt need --against or a recording with answers',
    );
  const check = (what: string, count: number, of: number, max: number | undefined): void => {
    if (max === undefined || count <= max * of) return;
    found.push(`${count} of ${counted(of, 'request')} ${what}, more than ${percent(max)}`);
  };
  check('refused', last.refused, last.requests, maxRefused);
  check('newly refused', change?.newlyRefused ?? 0, change?.compared ?? 0, maxNewlyRefused);
  if (maxNewlyHurt !== undefined && change && change.keysNewlyHurt > maxNewlyHurt)
    found.push(`${counted(change.keysNewlyHurt, 'key')} newly hurt, more than ${maxNewlyHurt}`);
  return found;
}
