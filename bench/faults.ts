import { faultsOfOneServer } from '../test/helpers/faults/of-one-server.ts';
import { faultsOfSeveralServers } from '../test/helpers/faults/of-several-servers.ts';
import { suffer } from '../test/helpers/faults/suffer.ts';
import { runMain } from './main.ts';
import { showUsage } from './usage.ts';

const seconds = (ms: number): string => (ms / 1_000).toFixed(1);

showUsage(
  `Usage: npm run faults [-- TEXT]

Measures what callers see of all that may befall Redis, a row each; with TEXT only of events that contain it.
Starts Redis servers of its own. Takes some ten minutes; each row is printed when it is done.
`,
  1,
);

runMain(measure);

/** What callers see of everything that may befall Redis, a row each; only of those whose event contains the argument, where there is one. */
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
