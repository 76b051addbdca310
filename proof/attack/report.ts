import { KIB, MIB } from '../tables/figures.ts';
import { tableHead, tableRow } from '../tables/table.ts';
import type { Result } from './run-attack.ts';
import { findProblems, sumFailures } from './verdict.ts';

const columns = [
  ...['attack', 'sent', 'conn.', 'growth MiB', 'RSS MiB', 'longest wait ms', 'with valid bytes ms'],
  ...['refused', 'failed', 'kept MiB', 'alive', 'verdict'],
] as const;

/** The head of the table, in Markdown. */
export const resultHead = tableHead(columns);

/** A row of the table. */
export function resultRow(result: Result, heapMib: number): string {
  const { bystander, valid } = result;
  const problems = findProblems(result, heapMib);
  const cells = [
    result.attack,
    size(result.sentBytes),
    result.connections,
    (result.growthBytes / MIB).toFixed(0),
    (result.peakRssBytes / MIB).toFixed(0),
    bystander.longestWaitMs.toFixed(0),
    valid ? valid.longestWaitMs.toFixed(0) : '',
    bystander.refused,
    sumFailures(bystander.failures),
    result.keptBytes === undefined ? '' : (result.keptBytes / MIB).toFixed(0),
    result.end === undefined ? 'yes' : 'no',
    problems.length === 0 ? 'holds' : problems.join(', '),
  ];
  return tableRow(cells);
}

const size = (bytes: number): string =>
  bytes < MIB ? `${(bytes / KIB).toFixed(1)} KiB` : `${(bytes / MIB).toFixed(1)} MiB`;
