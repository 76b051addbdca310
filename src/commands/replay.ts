import { type Command, InvalidArgumentError, Option } from 'commander';
import { logFormats } from '../replay/readers/format-names.ts';
import { CommandFailed, guarded } from './client.ts';
import type { ReplayFlags, ReplaySurroundings } from './replay-flags.ts';

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
    .option('--overlay <path>', 'overlay of both; may be given several times', several, [])
    .option('--mapping <file>', 'how a line of an access log becomes a request; see --learn')
    .addOption(
      new Option('--format <name>', 'of access logs, instead of what their first line says').choices(logFormats),
    )
    .option('--learn', 'print a first mapping for an access log, and do nothing else', false)
    .option(
      '--reorder <time>',
      'put requests in order that are so far from their place (access logs: 60s)',
      reorderSpan,
    )
    .option('--json', 'print the report as JSON', false)
    .option('--answers', 'print the answer to each request, a line of JSON each, instead of the report', false)
    .option('--html <file>', 'write the report as a page of its own as well')
    .option('--verify', 'fail unless each answer is the recorded one', false)
    .option('--max-refused <part>', 'fail if more of the requests are refused: 5%', part)
    .option('--max-newly-refused <part>', 'fail if more are refused that were admitted before: 0.1%', part)
    .option('--max-newly-hurt <n>', 'fail if more keys are refused that never were before', whole)
    .action(
      guarded(surroundings.fail, async (files: readonly string[], flags: ReplayFlags) => {
        const [{ runReplay }, { UnreadableInput }] = await Promise.all([
          import('./run-replay.ts'),
          import('../replay/input.ts'),
        ]);
        try {
          await runReplay(files, flags, surroundings);
        } catch (error) {
          throw error instanceof UnreadableInput ? new CommandFailed(error.message) : error;
        }
      }),
    );
}

export const several = (path: string, before: readonly string[]): readonly string[] => [...before, path];

const spanMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;

export function reorderSpan(written: string): number {
  const [, number = '', unit = ''] = /^(\d{1,9})(ms|s|m|h)$/.exec(written) ?? [];
  if (unit === '') throw new InvalidArgumentError('expected a time such as 500ms, 60s or 5m.');
  return Number(number) * spanMs[unit as keyof typeof spanMs]; // as the pattern says
}

/** `0.1%`, or `0.001` */
export function part(written: string): number {
  const [, number = '', sign] = /^(\d+(?:\.\d+)?)(%)?$/.exec(written) ?? [];
  const value = number === '' ? Number.NaN : Number(number) / (sign ? 100 : 1);
  if (value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError('expected a part such as 0.1% or 0.001.');
}

function whole(written: string): number {
  if (/^\d{1,15}$/.test(written)) return Number(written);
  throw new InvalidArgumentError('expected a whole number.');
}
