import type { Command } from 'commander';
import { whole } from './admin.ts';
import { addTrafficOptions, onFiles, part, type ReplaySurroundings, reorderOption } from './traffic-input.ts';

/** Adds the command that replays recorded traffic. */
export function addReplayCommands(program: Command, surroundings: ReplaySurroundings): void {
  const command = program
    .command('replay')
    .summary('replay recorded traffic against rules')
    .description(
      'Replay recorded traffic against rule files on a simulated clock, and report what would have been refused. Exits with 1 if a threshold is exceeded. `weir diff` compares the rules themselves; `weir simulate` generates traffic.',
    )
    .argument('[file...]', 'recordings or access logs, plain or compressed; - or none: standard input')
    .option('--rules <path>', 'rule file or directory')
    .option('--against <path>', 'other rules to compare with these: the planned change');
  addTrafficOptions(command, { rules: 'both', learn: '--learn' })
    .option('--learn', 'only print a draft mapping for an access log', false)
    .addOption(reorderOption())
    .option('--json', 'print the report as JSON', false)
    .option('--answers', 'print the answer to each request as a line of JSON, instead of the report', false)
    .option('--html <file>', 'also write the report as a self-contained HTML page')
    .option('--verify', 'fail if any answer differs from the recorded one', false)
    .option('--max-refused <part>', 'fail if a larger share of the requests is refused: 5%', part)
    .option('--max-newly-refused <part>', 'fail if a larger share of the requests is newly refused: 0.1%', part)
    .option(
      '--max-newly-hurt <n>',
      'fail if more keys are refused for the first time',
      whole(0, Number.MAX_SAFE_INTEGER),
    )
    .action(onFiles(surroundings, async () => (await import('./run-replay.ts')).runReplay));
}
