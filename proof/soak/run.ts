import { parseArgs } from 'node:util';
import { parseNumber } from '../options.ts';
import { MIB } from '../tables/figures.ts';
import { table } from '../tables/table.ts';
import { type Result, soak } from './soak.ts';

export const usage = `Usage: npm run proof -- soak [options]

Sends 200 requests a second with 1.5 million keys to a service with two deciders, Redis and usage, while operators reload
rules, switch a candidate on and off, watch the console and read reports. Meanwhile the disk is full for a minute, and later
Redis is stopped for a minute. Prints what happened, and exits with 1 if a process ended, the control process took more than
256 MiB, the deciders grew, or usage does not equal the counters for each key.

  --minutes M  duration (20); faults take at most an eighth of it
  --help       this text

The disk is a tmpfs, which only root may mount: otherwise it is not filled, and the report says so.
`;

const MAX_CONTROL_BYTES = 256 * MIB;
/** What deciders may grow by from the second fifth of the run to the last. */
const MAX_GROWTH = 1.25;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args: [...args], options: { minutes: { type: 'string', default: '20' } } });
  const minutes = parseNumber('--minutes', values.minutes, [0.1, 9_999]);
  const result = await soak(minutes, (step) => console.error(`${step} …`));
  console.log(describe(result));
  const faults = violations(result);
  console.log(`\n${faults.length === 0 ? 'Everything held.' : faults.map((one) => `- ${one}`).join('\n')}`);
  if (faults.length > 0) process.exitCode = 1;
}

/** What should not have happened, in words. */
export function violations({ processes, traffic, totals, uses }: Result): readonly string[] {
  const { first, last } = processes;
  const { hitsAdmitted, hitsUnsure } = traffic;
  const { counted, reported, wrongKeys } = totals;
  return [
    ...processes.died.map((name) => `${name} ended`),
    ...(processes.controlPeakBytes > MAX_CONTROL_BYTES ? ['the control process took more than 256 MiB'] : []),
    ...(last.deciders > first.deciders * MAX_GROWTH ? ['the deciders have grown'] : []),
    ...(wrongKeys > 0 || counted !== reported ? [`usage differs from the counters for ${wrongKeys} keys`] : []),
    ...(reported < hitsAdmitted ? ['usage has fewer hits than were admitted'] : []),
    ...(reported > hitsAdmitted + hitsUnsure ? ['usage has hits that were never sent'] : []),
    ...uses
      .filter(({ failed }) => failed > 0)
      .map((use) => `${use.name} failed ${use.failed} times: ${use.lastFailure}`),
  ];
}

function describe({ processes, traffic, totals, uses, isDiskFilled, faultSeconds }: Result): string {
  const mib = (bytes: number): string => (bytes / MIB).toFixed(0);
  const seconds = (ms: number): string => (ms / 1_000).toFixed(0);
  const { first, last } = processes;
  const disk = isDiskFilled ? `${faultSeconds} s` : 'not filled: no permission to mount';
  return [
    `Faults: disk full: ${disk}; Redis stopped: ${faultSeconds} s. Processes that ended: ${processes.died.length}.`,
    table(['memory, MiB', 'second fifth', 'last fifth', 'most', 'after s'], 1, [
      [
        'control process',
        mib(first.control),
        mib(last.control),
        mib(processes.controlPeakBytes),
        seconds(processes.controlPeakAtMs),
      ],
      ['both deciders', mib(first.deciders), mib(last.deciders), '', ''],
    ]),
    table(['calls', 'of these'], 1, [
      ['all', traffic.calls],
      ['refused by a limit', traffic.refused],
      ['answered without Redis', traffic.degraded],
      ['failed', traffic.failed],
    ]),
    table(['hits', 'number'], 1, [
      ['sent', traffic.hitsSent],
      ['answered OK', traffic.hitsAdmitted],
      ['of calls that were answered without Redis, or failed', traffic.hitsUnsure],
      ['of the counters', totals.counted],
      ['of the usage ledger', totals.reported],
      ['keys', totals.keys],
      ['keys whose usage is not their counter', totals.wrongKeys],
    ]),
    table(
      ['operators', 'times', 'failed in a fault', 'failed otherwise', 'longest s'],
      1,
      uses.map((use) => [use.name, use.times, use.failedInFault, use.failed, (use.longestMs / 1_000).toFixed(1)]),
    ),
  ].join('\n\n');
}
