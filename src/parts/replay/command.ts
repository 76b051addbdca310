import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Surroundings } from '../../cli/surroundings.ts';
import { durationMs } from '../../engine/algorithms/limit.ts';
import { list, whole } from '../lab/commands/admin.ts';
import { guarded } from '../lab/commands/client.ts';
import { logFormats } from './readers/format-names.ts';

/** Adds the command that replays recorded traffic. */
export function addReplayCommand(program: Command, surroundings: Surroundings): void {
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

/**
 * Adds the options for reading traffic.
 *
 * @param rules  name of the rules to which the overlay applies
 * @param learn  command that prints a first mapping
 */
export function addTrafficOptions(command: Command, { rules, learn }: { rules: string; learn: string }): Command {
  const overlay = new Option('--overlay <path>', `overlay of ${rules}; may be given several times`)
    .argParser(list(String))
    .default([]);
  const format = new Option(
    '--format <name>',
    'format of access logs, instead of the one detected from the first line',
  ).choices(logFormats);
  return command
    .addOption(overlay)
    .option('--mapping <file>', `how a line of an access log becomes a request; see ${learn}`)
    .addOption(format);
}

export const reorderOption = (): Option =>
  new Option('--reorder <time>', 'sort requests that are up to this far out of order (access logs: 60s)').argParser(
    reorderSpan,
  );

function reorderSpan(written: string): number {
  const ms = durationMs(written);
  if (ms === undefined) throw new InvalidArgumentError('expected a time such as 500ms, 60s or 5m.');
  return ms;
}

/** `0.1%`, or `0.001` */
export function part(written: string): number {
  const [, number = '', sign] = /^(\d+(?:\.\d+)?)(%)?$/.exec(written) ?? [];
  const value = number === '' ? Number.NaN : Number(number) / (sign ? 100 : 1);
  if (value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError('expected a share such as 0.1% or 0.001.');
}

type RunOnFiles<F> = (files: readonly string[], flags: F, surroundings: Surroundings) => Promise<void>;

/** Runs a command on files. @param load  imports the function that runs it */
export const onFiles = <F>(surroundings: Surroundings, load: () => Promise<RunOnFiles<F>>) =>
  guarded(surroundings.fail, async (files: readonly string[], flags: F) => (await load())(files, flags, surroundings));
