import { type Command, InvalidArgumentError } from 'commander';
import type { Surroundings } from '../../cli/surroundings.ts';
import { addServiceOptions } from '../lab/commands/admin.ts';
import { addTrafficOptions, onFiles, part, reorderOption } from '../replay/command.ts';

/** Adds the command that proposes limits. */
export function addAdviseCommand(program: Command, surroundings: Surroundings): void {
  const command = program
    .command('advise')
    .summary('propose limits from traffic')
    .description(
      'Report for each limit how its keys use it, what other limits would do, and which one to choose, with the reasons. Reads recordings and access logs like `weir replay`, or the observations of a running service (ADVISE_BYTES). Changes nothing.',
    )
    .argument('[file...]', 'recordings or access logs, plain or compressed; - or none: standard input')
    .option('--rules <path>', 'rule file or directory with the limits to advise on');
  addTrafficOptions(command, { rules: 'the rules', learn: 'weir replay --learn' })
    .addOption(reorderOption())
    .option('--live', 'advise on the traffic of a running service, instead of files', false);
  addServiceOptions(command)
    .option('--domain <domain>', 'only the limits of this domain')
    .option('--rule <path>', 'only the limits of this rule')
    .option('--max-keys-hit <part>', 'maximum share of the normal keys that a proposal may hit; default: 1%', accepted)
    .option('--json', 'print the advice as JSON', false)
    .option('--yaml', 'print the proposals as an overlay of the rules, for weir check --overlay', false)
    .action(onFiles(surroundings, async () => (await import('./run-advise.ts')).runAdvise));
}

function accepted(written: string): number {
  const value = part(written);
  if (value > 0 && value < 1) return value;
  throw new InvalidArgumentError('expected a share above 0 and below 100 %.');
}
