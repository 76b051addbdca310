import { parseArgs } from 'node:util';
import { faultsOfOneServer } from '../../test/helpers/faults/of-one-server.ts';
import { faultsOfSeveralServers } from '../../test/helpers/faults/of-several-servers.ts';
import { suffer } from '../../test/helpers/faults/suffer.ts';
import { percent } from '../tables/figures.ts';
import { tableHead, tableRow } from '../tables/table.ts';

const seconds = (ms: number): string => (ms / 1_000).toFixed(1);

export const usage = `Usage: npm run proof -- faults [TEXT]

Measures the effects of Redis faults on callers, one row for each event; with TEXT, only events whose names contain it.
Starts Redis servers of its own. Takes about ten minutes; each row is printed when it is done.
`;

/** Prints a row for each fault of Redis as callers see it; with an argument, only for events that contain it. */
export async function run(args: readonly string[]): Promise<void> {
  const [filter = ''] = parseArgs({ args, allowPositionals: true }).positionals;
  const columns = [
    'event',
    'lasts s',
    'calls',
    'failed',
    'longest call ms',
    'normal again after s',
    'most admitted, of a limit',
  ];
  console.log(tableHead(columns));
  for (const fault of [...faultsOfOneServer, ...faultsOfSeveralServers].filter(({ event }) => event.includes(filter))) {
    const { calls, failed, longestMs, struckMs, recoveryMs, most } = await suffer(fault);
    const cells = [
      fault.event,
      seconds(struckMs),
      calls,
      failed,
      longestMs.toFixed(0),
      seconds(recoveryMs),
      percent(most, 0),
    ];
    console.log(tableRow(cells));
  }
}
