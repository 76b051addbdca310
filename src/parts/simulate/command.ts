import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Surroundings } from '../../cli/surroundings.ts';
import { whole } from '../lab/commands/admin.ts';
import { CommandFailed, guarded } from '../lab/commands/client.ts';
import type { SimulateFlags } from './run-simulation.ts';
import type { UpstreamFlags } from './run-upstream.ts';
import { scenarioNames, upstreamChanges } from './scenario-names.ts';

/** Adds the command that simulates traffic. */
export function addSimulateCommand(program: Command, surroundings: Surroundings): void {
  program
    .command('simulate')
    .summary('replay simulated traffic against rules')
    .description(
      'Replay simulated traffic against rule files on a simulated clock, and report what would have been refused, to design limits before there is traffic; or simulate an upstream behind a limit on requests in flight. The same seed gives the same requests.',
    )
    .addOption(
      new Option('--scenario <name>', 'the model of the traffic')
        .choices(scenarioNames)
        .conflicts(['upstream', 'arrivals', 'clients', 'change']),
    )
    .addOption(
      new Option(
        '--upstream <size>',
        'instead, an upstream behind the in_flight limit of the rules, by default an adaptive one: workers and time of a request, such as 12x100ms',
      )
        .argParser(upstream)
        .conflicts(['mapping', 'html', 'out']),
    )
    .option('--arrivals <n>', 'requests per second to the upstream (default: 1.5 times its capacity)', whole(1, 99_999))
    .addOption(
      new Option('--clients <n>', 'clients that wait for the upstream instead of arrivals')
        .argParser(whole(1, 99_999))
        .conflicts('arrivals'),
    )
    .addOption(
      new Option('--change <what>', 'what happens to the upstream after 30 seconds, for 30 seconds')
        .choices(Object.keys(upstreamChanges))
        .default('halved'),
    )
    .option(
      '--rules <path>',
      'rule file or directory, instead of 60 requests a minute for a user, 120 for an address, and 10 logins an hour',
    )
    .option('--against <path>', 'other rules to compare with these: the planned change')
    .option('--seed <n>', 'seed of the random requests', whole(0, 999_999_999), 1)
    .option('--mapping <file>', 'the descriptors of a request, instead of user, path, path and address, and address')
    .option('--json', 'print the report as JSON', false)
    .option('--html <file>', 'also write the report as a self-contained HTML page')
    .option('--out <file>', 'also write the requests as a recording for weir replay')
    .action(
      guarded(surroundings.fail, async (flags: SimulateFlags | UpstreamFlags) => {
        if ('upstream' in flags) {
          const { runUpstreamSimulation } = await import('./run-upstream.ts');
          return await runUpstreamSimulation(flags, surroundings);
        }
        if (flags.scenario === undefined) throw new CommandFailed('expected --scenario or --upstream, got neither');
        const { runSimulation } = await import('./run-simulation.ts');
        await runSimulation(flags, surroundings);
      }),
    );
}

function upstream(written: string): UpstreamFlags['upstream'] {
  const [, workers, workMs] = /^([1-9]\d{0,3})x([1-9]\d{0,4})ms$/.exec(written) ?? [];
  if (workers === undefined) throw new InvalidArgumentError('expected workers and milliseconds, such as 12x100ms.');
  return { workers: Number(workers), workMs: Number(workMs) };
}
