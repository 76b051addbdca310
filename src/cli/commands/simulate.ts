import { type Command, InvalidArgumentError, Option } from 'commander';
import { scenarioNames } from '../../lab/simulate/scenario-names.ts';
import { guarded } from './client.ts';
import type { SimulateFlags } from './run-simulation.ts';
import type { ReplaySurroundings } from './traffic-input.ts';

/** Adds the command that simulates traffic. */
export function addSimulateCommand(program: Command, surroundings: ReplaySurroundings): void {
  program
    .command('simulate')
    .summary('replay simulated traffic against rules')
    .description(
      'Replay simulated traffic against rule files on a simulated clock, and report what would have been refused, to design limits before there is traffic. The same seed gives the same requests.',
    )
    .addOption(new Option('--scenario <name>', 'the model').choices(scenarioNames).makeOptionMandatory())
    .option(
      '--rules <path>',
      'rule file or directory, instead of 60 requests a minute for a user, 120 for an address, and 10 logins an hour',
    )
    .option('--against <path>', 'other rules to compare with these: the planned change')
    .option('--seed <n>', 'seed of the random requests', seed, 1)
    .option('--mapping <file>', 'the descriptors of a request, instead of user, path, path and address, and address')
    .option('--json', 'print the report as JSON', false)
    .option('--html <file>', 'also write the report as a self-contained HTML page')
    .option('--out <file>', 'also write the requests as a recording for weir replay')
    .action(
      guarded(surroundings.fail, async (flags: SimulateFlags) => {
        const { runSimulation } = await import('./run-simulation.ts');
        await runSimulation(flags, surroundings);
      }),
    );
}

function seed(written: string): number {
  if (/^\d{1,9}$/.test(written)) return Number(written);
  throw new InvalidArgumentError('expected a whole number from 0 to 999999999.');
}
