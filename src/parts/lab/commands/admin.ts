import { type Command, InvalidArgumentError, Option } from 'commander';
import { DESCRIPTOR } from '../../../edge/listing/descriptor-text.ts';
import { MAX_UINT32 } from '../../../edge/wire/wire.ts';
import { durationMs, unitMs } from '../../../engine/algorithms/limit.ts';
import type { Target } from './client.ts';

/** Options of a command that calls a service. */
export interface ServiceFlags extends Target {
  readonly json: boolean;
}

/** Parses the duration of a change, in milliseconds. */
export function span(written: string): number {
  const ms = durationMs(written) ?? 0;
  if (ms >= unitMs.SECOND && ms <= unitMs.YEAR) return ms;
  throw new InvalidArgumentError('expected a time from 1s to 365d, such as 30s, 15m, 2h or 7d.');
}

/** Name of the subcommand that runs by default. */
export const SHOW = 'show';

/** Adds the arguments of the descriptor that a command acts on. */
export const onDescriptor = (added: Command): Command =>
  added.argument('<domain>').argument('<descriptor>', DESCRIPTOR);

/** The flag of commands that change something. */
export interface Reasoned {
  readonly reason: string;
}

export const withReason = (added: Command): Command =>
  added.requiredOption('--reason <text>', 'reason, for the audit log');

/**
 * Adds a command that calls the admin API.
 *
 * @param summary  what it does, which as a sentence is its description
 */
export function command(program: Command, name: string, summary: string): Command {
  const added = program
    .command(name, { isDefault: name === SHOW })
    .summary(summary)
    .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`);
  return addServiceOptions(added).option('--json', "print the service's answer as JSON", false);
}

/** Adds the options that say which service a command calls, and how. */
export const addServiceOptions = (added: Command): Command => addAccessOptions(added.addOption(targetOption()));

/** Adds the options that give access to a service. */
export const addAccessOptions = (added: Command): Command =>
  added
    .addOption(new Option('--token <secret>', 'a token of ADMIN_TOKEN').env('WEIR_TOKEN'))
    .option('--ca <file>', "CA file for the service's certificate, instead of the system CAs; implies https");

export const targetOption = (): Option =>
  new Option('--target <host:port>', 'debug port of the service').env('WEIR_TARGET').default('localhost:6070');

/** A parser of an option that may be given several times. */
export const list =
  <T>(parse: (written: string) => T) =>
  (written: string, before: readonly T[] = []): readonly T[] => [...before, parse(written)];

/** A parser of whole numbers. */
export const whole =
  (minimum: number, maximum: number, what = 'a whole number') =>
  (written: string): number => {
    const value = /^\d+$/.test(written) ? Number(written) : Number.NaN;
    if (value >= minimum && value <= maximum) return value;
    throw new InvalidArgumentError(`expected ${what} from ${minimum} to ${maximum}.`);
  };

export const count = whole(0, MAX_UINT32);
