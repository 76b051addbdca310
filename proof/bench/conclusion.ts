import { type ComparedRow, isSlower } from './against.ts';
import { ALWAYS_ALLOWED } from './verdict.ts';

/** A summary of all rows, to print below their table, and the exit code. */
export interface Conclusion {
  readonly text: string;
  readonly exitCode: 0 | 1;
}

export function conclude(rows: readonly ComparedRow[]): Conclusion {
  const slower = rows.filter(isSlower).map(({ shape, transport }) => `${shape.name} (${transport})`);
  const coarse = rows.filter((row) =>
    [row.service, row.withRedis].some((comparison) => comparison && comparison.spread > ALWAYS_ALLOWED),
  );
  const caution =
    `In ${coarse.length} of ${rows.length} rows this build differs from itself by more than ${ALWAYS_ALLOWED * 100} %: ` +
    'smaller differences cannot be seen there.\nLess other work on the machine, or more --rounds, makes the spread smaller.\n';
  const result = slower.length === 0 ? 'No row is slower.' : `Slower: ${slower.join('; ')}.`;
  return { text: `${coarse.length === 0 ? '' : caution}${result}`, exitCode: slower.length === 0 ? 0 : 1 };
}
