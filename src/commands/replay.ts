import { type Command, InvalidArgumentError } from 'commander';
import type { ReplayFlags, ReplaySurroundings } from './replay-flags.ts';
import { formatOption, mappingOption, onFiles, overlayOption, part, reorderOption } from './traffic-input.ts';

/** Adds the commands about recorded traffic. */
export function addReplayCommands(program: Command, surroundings: ReplaySurroundings): void {
  program
    .command('replay')
    .summary('answer recorded traffic by other rules')
    .description(
      'Answer recorded traffic by rule files, on a simulated clock, and report what would have been refused. Exits with 1 where a threshold is exceeded. `weir diff` compares the rules themselves, and `weir simulate` makes traffic up.',
    )
    .argument('[file...]', 'recordings or access logs, plain or compressed; - or none: standard input')
    .option('--rules <path>', 'rule file or directory')
    .option('--against <path>', 'other rules, to be compared with these: the change that is planned')
    .addOption(overlayOption('both'))
    .addOption(mappingOption('--learn'))
    .addOption(formatOption())
    .option('--learn', 'print a first mapping for an access log, and do nothing else', false)
    .addOption(reorderOption())
    .option('--json', 'print the report as JSON', false)
    .option('--answers', 'print the answer to each request, a line of JSON each, instead of the report', false)
    .option('--html <file>', 'write the report as a page of its own as well')
    .option('--verify', 'fail unless each answer is the recorded one', false)
    .option('--max-refused <part>', 'fail if more of the requests are refused: 5%', part)
    .option('--max-newly-refused <part>', 'fail if more are refused that were admitted before: 0.1%', part)
    .option('--max-newly-hurt <n>', 'fail if more keys are refused that never were before', whole)
    .action(
      onFiles<ReplayFlags>(surroundings.fail, async () => {
        const { runReplay } = await import('./run-replay.ts');
        return (files, flags) => runReplay(files, flags, surroundings);
      }),
    );
}

function whole(written: string): number {
  if (/^\d{1,15}$/.test(written)) return Number(written);
  throw new InvalidArgumentError('expected a whole number.');
}
