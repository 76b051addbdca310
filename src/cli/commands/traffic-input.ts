import type { Readable } from 'node:stream';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { logFormats } from '../../lab/replay/readers/format-names.ts';
import { list, parseSpan, type Surroundings } from './admin.ts';
import { CommandFailed, guarded } from './client.ts';

/** Options and helpers of commands that read recordings and access logs. */

/** Further parts of the process, for commands that read traffic. */
export interface ReplaySurroundings extends Surroundings {
  readonly input: Readable;
  /** Writes to standard output; resolves when more can be written. */
  readonly write: (text: string) => Promise<void>;
  /** Writes to standard error; undefined if it is not a terminal. */
  readonly showProgress: ((text: string) => void) | undefined;
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
  const ms = parseSpan(written);
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

type RunOnFiles<F> = (files: readonly string[], flags: F, surroundings: ReplaySurroundings) => Promise<void>;

/**
 * Runs a command on files; unreadable input is reported without a stack trace.
 *
 * @param load  imports the function that runs the command
 */
export const onFiles = <F>(surroundings: ReplaySurroundings, load: () => Promise<RunOnFiles<F>>) =>
  guarded(surroundings.fail, async (files: readonly string[], flags: F) => {
    const [run, { UnreadableInput }] = await Promise.all([load(), import('../../lab/replay/input.ts')]);
    try {
      await run(files, flags, surroundings);
    } catch (error) {
      throw error instanceof UnreadableInput ? new CommandFailed(error.message) : error;
    }
  });
