import { type Command, InvalidArgumentError, Option } from 'commander';
import { scenarioNames } from '../simulate/scenario-names.ts';
import { guarded } from './client.ts';
import type { ReplaySurroundings, SimulateFlags } from './replay-flags.ts';

/** Adds the command that makes traffic up. */
export function addSimulateCommand(program: Command, surroundings: ReplaySurroundings): void {
  program
    .command('simulate')
    .summary('answer simulated traffic by rules')
    .description(
      'Answer the traffic of a model by rule files, on a simulated clock, and report what would have been refused: to design limits before there is traffic. The same seed gives the same requests.',
    )
    .addOption(new Option('--scenario <name>', 'the model').choices(scenarioNames).makeOptionMandatory())
    .option(
      '--rules <path>',
      'rule file or directory, instead of 60 requests a minute for a user, 120 for an address, and 10 logins an hour',
    )
    .option('--against <path>', 'other rules, to be compared with these: the change that is planned')
    .option('--seed <n>', 'another number gives other requests', seed, 1)
    .option('--mapping <file>', 'the descriptors of a request, instead of user, path, path and address, and address')
    .option('--json', 'print the report as JSON', false)
    .option('--html <file>', 'write the report as a page of its own as well')
    .option('--out <file>', 'write the requests as a recording as well, for weir replay')
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
