import { faultsOfOneServer } from '../../test/helpers/faults/of-one-server.ts';
import { faultsOfSeveralServers } from '../../test/helpers/faults/of-several-servers.ts';
import { suffer } from '../../test/helpers/faults/suffer.ts';
import { runMain } from './main.ts';
import { showUsage } from './usage.ts';

const seconds = (ms: number): string => (ms / 1_000).toFixed(1);

showUsage(
  `Usage: npm run faults [-- TEXT]

Measures the effects of Redis faults on callers, one row for each event; with TEXT, only events whose names contain it.
Starts Redis servers of its own. Takes about ten minutes; each row is printed when it is done.
`,
  1,
);

runMain(measure);

/** Prints a row for each fault of Redis as callers see it; with an argument, only for events that contain it. */
async function measure(): Promise<void> {
  const filter = process.argv[2] ?? '';
  console.log(
    '| event | lasts s | calls | failed | longest call ms | normal again after s | most admitted, of a limit |',
  );
  console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: |');
  for (const fault of [...faultsOfOneServer, ...faultsOfSeveralServers].filter(({ event }) => event.includes(filter))) {
    const { calls, failed, longestMs, struckMs, recoveryMs, most } = await suffer(fault);
    const cells = [
      fault.event,
      seconds(struckMs),
      calls,
      failed,
      longestMs.toFixed(0),
      seconds(recoveryMs),
      `${(most * 100).toFixed(0)} %`,
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
}
