import { type Command, InvalidArgumentError, Option } from 'commander';
import { logFormats } from '../replay/readers/format-names.ts';
import type { AdviseFlags } from './advise-flags.ts';
import { CommandFailed, guarded } from './client.ts';
import { part, reorderSpan, several } from './replay.ts';
import type { ReplaySurroundings } from './replay-flags.ts';

/** Adds the command that proposes limits. */
export function addAdviseCommand(program: Command, surroundings: ReplaySurroundings): void {
  program
    .command('advise')
    .summary('propose limits from traffic')
    .description(
      'Report for each limit how its keys use it, what other limits would do, and which one to take, with the reasons. Reads recordings and access logs as `weir replay` does, or what a running service has seen (ADVISE_BYTES). Changes nothing.',
    )
    .argument('[file...]', 'recordings or access logs, plain or compressed; - or none: standard input')
    .option('--rules <path>', 'rule file or directory whose limits the advice is about')
    .option('--overlay <path>', 'overlay of the rules; may be given several times', several, [])
    .option('--mapping <file>', 'how a line of an access log becomes a request; see weir replay --learn')
    .addOption(
      new Option('--format <name>', 'of access logs, instead of what their first line says').choices(logFormats),
    )
    .option(
      '--reorder <time>',
      'put requests in order that are so far from their place (access logs: 60s)',
      reorderSpan,
    )
    .option('--from <host:port>', 'debug port of a running service, instead of files')
    .option(
      '--token <secret>',
      'a token of ADMIN_TOKEN; by default WEIR_TOKEN of the environment',
      surroundings.env.WEIR_TOKEN,
    )
    .option('--domain <domain>', 'only the limits of this domain')
    .option('--rule <path>', 'only the limits of this rule')
    .option('--max-keys-hit <part>', 'part of the usual keys that a proposal may hit: 1% by default', accepted)
    .option('--json', 'print the advice as JSON', false)
    .option('--yaml', 'print the proposals as an overlay of the rules, for weir check --overlay', false)
    .action(
      guarded(surroundings.fail, async (files: readonly string[], flags: AdviseFlags) => {
        const [{ runAdvise }, { UnreadableInput }] = await Promise.all([
          import('./run-advise.ts'),
          import('../replay/input.ts'),
        ]);
        try {
          await runAdvise(files, flags, surroundings);
        } catch (error) {
          throw error instanceof UnreadableInput ? new CommandFailed(error.message) : error;
        }
      }),
    );
}

function accepted(written: string): number {
  const value = part(written);
  if (value > 0 && value < 1) return value;
  throw new InvalidArgumentError('expected a part above 0 and below 100 %.');
}
