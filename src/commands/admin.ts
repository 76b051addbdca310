import { type Argument, type Command, Help, InvalidArgumentError, Option } from 'commander';
import { rfc3339 } from '../admin/times.ts';
import type { Clock } from '../clock.ts';
import { MAX_UINT32, type WireRequest } from '../rls/wire.ts';
import { CommandFailed, callApi, guarded, type Target } from './client.ts';
import type { SentExplanation } from './explain.ts';
import { inGroups } from './groups.ts';
import { type Paint, paintFor } from './paint.ts';
import {
  renderAudit,
  renderCounters,
  renderOverride,
  renderPage,
  renderRefusals,
  renderTop,
  renderUnmatched,
  type SentAudit,
  type SentCounters,
  type SentOverride,
  type SentPage,
  type SentRefusals,
  type SentTop,
  type SentUnmatched,
} from './render.ts';

/** What commands take from the process. */
export interface Surroundings {
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isTerminal: boolean;
  /** Prints a text and the end of its line. */
  readonly print: (text: string) => void;
  /** Prints what is wrong; the process ends with 1. */
  readonly fail: (message: string) => void;
}

interface Common extends Target {
  readonly json: boolean;
}

interface ListOptions extends Common {
  readonly rule?: string;
  readonly after?: string;
}

interface RefusalOptions extends Common {
  readonly domain?: string;
  readonly rule?: string;
  readonly request?: string;
  readonly count: number;
  readonly follow: boolean;
}

/** Adds the commands that speak to the admin API. */
export function addAdminCommands(program: Command, surroundings: Surroundings): void {
  program.configureHelp({
    subcommandTerm: termOf,
    visibleCommands: (parent) => inGroups(new Help().visibleCommands(parent).filter((one) => one.name() !== 'help')),
  });
  addExplain(program, surroundings);
  addViews(program, surroundings);
  addLogs(program, surroundings);
  addCounters(program, surroundings);
  addOverrides(program, surroundings);
}

/** A command with its arguments, for the list of commands: every one has options. */
const termOf = (command: Command): string => [command.name(), ...command.registeredArguments.map(argumentOf)].join(' ');

function argumentOf(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
  return argument.required ? `<${name}>` : `[${name}]`;
}

function addExplain(program: Command, { clock, print, fail, ...around }: Surroundings): void {
  command(program, 'explain', 'explain the answer a request would get', around.env)
    .argument('<domain>')
    .argument('<descriptor...>', 'key=value[,key=value…], one argument for each descriptor')
    .option('--hits <n>', 'hits that the request counts', count, 1)
    .option('--rules <path>', 'explain by rule files alone, without a service, on new counters')
    .option('--at <time>', 'with --rules: at another time, such as 2026-11-27T00:00Z')
    .action(
      guarded(
        fail,
        async (
          domain: string,
          descriptors: string[],
          options: Common & { hits: number; rules?: string; at?: string },
        ) => {
          const { clockAt, explainOffline, renderExplanation } = await import('./explain.ts');
          if (options.at !== undefined && options.rules === undefined)
            throw new CommandFailed('--at goes with --rules: a service explains what it would answer now');
          const request = requestOf(domain, descriptors, options.hits);
          const explanation: SentExplanation =
            options.rules === undefined
              ? await callApi(options, 'POST', '/api/v1/explain', request)
              : await explainOffline(options.rules, request, clockAt(options.at, clock));
          print(options.json ? jsonOf(explanation) : renderExplanation(explanation, paintOf(around)));
        },
      ),
    );
}

function addViews(program: Command, { print, fail, ...around }: Surroundings): void {
  command(program, 'unmatched', 'list descriptors that met no rule', around.env)
    .option('--domain <domain>', 'only of this domain')
    .option('--count <n>', 'how many', count, 20)
    .action(
      guarded(fail, async (options: Common & { domain?: string; count: number }) => {
        const found = await callApi<SentUnmatched>(
          options,
          'GET',
          `/api/v1/unmatched?${queryOf({ domain: options.domain, count: options.count })}`,
        );
        print(options.json ? jsonOf(found) : renderUnmatched(found, paintOf(around)));
      }),
    );
  command(program, 'top', 'list the busiest descriptors of each rule', around.env)
    .addOption(new Option('--by <what>', 'what is counted').choices(['hits', 'refusals']).default('hits'))
    .option('--rule <path>', 'only of this rule')
    .option('--count <n>', 'how many of each rule', count, 10)
    .option('--follow', 'print it again every two seconds', false)
    .action(
      guarded(fail, async (options: Common & { by: string; rule?: string; count: number; follow: boolean }) => {
        const { by, rule, count: most } = options;
        for (;;) {
          const found = await callApi<SentTop>(options, 'GET', `/api/v1/top?${queryOf({ by, rule, count: most })}`);
          const clear = options.follow && around.isTerminal ? '\u001b[2J\u001b[H' : '';
          print(clear + (options.json ? jsonOf(found) : renderTop(found, paintOf(around))));
          if (!options.follow) return;
          await new Promise((resolve) => setTimeout(resolve, FOLLOW_INTERVAL_MS));
        }
      }),
    );
}

function addLogs(program: Command, { print, fail, ...around }: Surroundings): void {
  command(program, 'refusals', 'list the last refusals (EXPLAIN_SAMPLE)', around.env)
    .option('--domain <domain>', 'only of this domain')
    .option('--rule <path>', 'only of this rule')
    .option('--request <id>', 'of the request with this id (not_counted: trace)')
    .option('--count <n>', 'how many', count, 20)
    .option('--follow', 'keep printing new ones', false)
    .action(
      guarded(fail, async (options: RefusalOptions) => {
        const { domain, rule, request, count: most } = options;
        for (let after = 0; ; ) {
          const found = await callApi<SentRefusals>(
            options,
            'GET',
            `/api/v1/refusals?${queryOf({ domain, rule, request, after, count: most })}`,
          );
          if (options.json) print(jsonOf(found));
          else if (found.refusals.length > 0 || !options.follow) print(renderRefusals(found, paintOf(around)));
          if (!options.follow) return;
          after = Math.max(after, ...found.refusals.map(({ atMs }) => atMs));
          await new Promise((resolve) => setTimeout(resolve, FOLLOW_INTERVAL_MS));
        }
      }),
    );
  command(program, 'audit', 'list the newest changes of operators', around.env)
    .option('--count <n>', 'how many', count, 20)
    .action(
      guarded(fail, async (options: Common & { count: number }) => {
        const found = await callApi<SentAudit>(options, 'GET', `/api/v1/audit?${queryOf({ count: options.count })}`);
        print(options.json ? jsonOf(found) : renderAudit(found));
      }),
    );
}

const FOLLOW_INTERVAL_MS = 2_000;

function addCounters(program: Command, { print, fail, ...around }: Surroundings): void {
  const show = (options: Common, found: SentCounters): void =>
    print(options.json ? jsonOf(found) : renderCounters(found, paintOf(around)));
  command(program, 'get', 'show or list counters', around.env)
    .argument('[domain]', 'whose counters; none: all, a page at a time')
    .argument('[descriptor]', 'key=value[,key=value…]')
    .option('--rule <path>', 'of a list: only counters of this rule')
    .option('--after <next>', 'of a list: where the page begins, the `next` of the previous page')
    .action(
      guarded(fail, async (domain: string | undefined, descriptor: string | undefined, options: ListOptions) => {
        const { rule, after } = options;
        const found = await callApi<SentCounters | SentPage>(
          options,
          'GET',
          `/api/v1/counters?${queryOf(descriptor === undefined ? { domain, rule, after } : { domain, descriptor })}`,
        );
        if ('entries' in found) show(options, found);
        else print(options.json ? jsonOf(found) : renderPage(found));
      }),
    );
  onDescriptor(command(program, 'reset', 'clear counters on every instance', around.env))
    .requiredOption(...REASON)
    .action(
      guarded(fail, async (domain: string, descriptor: string, options: Common & { reason: string }) => {
        const body = { domain, descriptor: entriesOf(descriptor), reason: options.reason };
        show(options, await callApi(options, 'POST', '/api/v1/counters/reset', body));
      }),
    );
  onDescriptor(command(program, 'grant', 'give hits back to counters', around.env))
    .argument('<hits>', 'how many', count)
    .requiredOption(...REASON)
    .action(
      guarded(fail, async (domain: string, descriptor: string, hits: number, options: Common & { reason: string }) => {
        const body = { domain, descriptor: entriesOf(descriptor), hits, reason: options.reason };
        show(options, await callApi(options, 'POST', '/api/v1/counters/grant', body));
      }),
    );
}

function addOverrides(program: Command, { clock, print, fail, ...around }: Surroundings): void {
  const override = program.command('override').description('limit, block or exempt one descriptor');
  const show = (options: Common, found: SentOverride): void =>
    print(options.json ? jsonOf(found) : renderOverride(found));
  command(override, 'list', 'list overrides', around.env).action(
    guarded(fail, async (options: Common) => {
      const found = await callApi<{ readonly overrides: readonly SentOverride[] }>(options, 'GET', OVERRIDES);
      const lines = found.overrides.map(renderOverride).join('\n');
      print(options.json ? jsonOf(found) : lines === '' ? 'nothing is set' : lines);
    }),
  );
  onDescriptor(command(override, 'set', 'set an override of a descriptor, replacing the previous one', around.env))
    .argument('<effect>', 'block, exempt, or a limit such as 100/minute')
    .requiredOption('--for <time>', 'how long: 30s, 15m, 2h, 7d', span)
    .requiredOption(...REASON)
    .action(
      guarded(
        fail,
        async (
          domain: string,
          descriptor: string,
          effect: string,
          options: Common & { for: number; reason: string },
        ) => {
          const until = rfc3339(clock() + options.for);
          const body = {
            domain,
            descriptor: entriesOf(descriptor),
            ...effectOf(effect),
            until,
            reason: options.reason,
          };
          show(options, await callApi(options, 'PUT', OVERRIDES, body));
        },
      ),
    );
  onDescriptor(command(override, 'remove', 'remove the override of a descriptor', around.env))
    .requiredOption(...REASON)
    .action(
      guarded(fail, async (domain: string, descriptor: string, options: Common & { reason: string }) => {
        const body = { domain, descriptor: entriesOf(descriptor), reason: options.reason };
        show(options, await callApi(options, 'DELETE', OVERRIDES, body));
      }),
    );
}

const OVERRIDES = '/api/v1/overrides';

/** @throws CommandFailed */
function effectOf(written: string): object {
  if (written === 'block' || written === 'exempt') return { effect: written };
  const [, requestsPerUnit = '', unit = ''] = /^(\d{1,10})\/(\w+)$/.exec(written) ?? [];
  if (unit === '') throw new CommandFailed(`expected block, exempt, or a limit such as 100/minute, got '${written}'`);
  return { effect: 'limit', requestsPerUnit: Number(requestsPerUnit), unit: unit.toUpperCase() };
}

const spanMs = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Reads a length of time, in milliseconds. */
export function span(written: string): number {
  const [, number = '', unit = ''] = /^(\d{1,9})([smhd])$/.exec(written) ?? [];
  if (unit === '') throw new InvalidArgumentError('expected a time such as 30s, 15m, 2h or 7d.');
  return Number(number) * spanMs[unit as keyof typeof spanMs]; // as the pattern says
}

/** The subcommand that is run where none is named. */
export const SHOW = 'show';

/** Has a command take the descriptor that it is about. */
const onDescriptor = (added: Command): Command =>
  added.argument('<domain>').argument('<descriptor>', 'key=value[,key=value…]');

const REASON = ['--reason <text>', 'why: for the audit log'] as const;

/** Adds a command that speaks to the admin API. */
export function command(program: Command, name: string, description: string, env: Surroundings['env']): Command {
  return program
    .command(name, { isDefault: name === SHOW })
    .description(description)
    .option('--target <host:port>', 'debug port of the service', 'localhost:6070')
    .option('--token <secret>', 'a token of ADMIN_TOKEN; by default WEIR_TOKEN of the environment', env.WEIR_TOKEN)
    .option('--json', 'print what the service sends', false);
}

export const paintOf = ({ isTerminal, env }: Pick<Surroundings, 'isTerminal' | 'env'>): Paint =>
  paintFor(isTerminal, env.NO_COLOR);

const jsonOf = (value: object): string => JSON.stringify(value, undefined, 2);

export function queryOf(parameters: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)])).toString();
}

/** `user=alice,path=/login`: two entries; one without `=` has no value. */
const entriesOf = (written: string) =>
  written.split(',').map((one) => {
    const equals = one.indexOf('=');
    return equals < 0 ? { key: one, value: '' } : { key: one.slice(0, equals), value: one.slice(equals + 1) };
  });

const requestOf = (domain: string, descriptors: readonly string[], hits: number): WireRequest => ({
  domain,
  descriptors: descriptors.map((written) => ({
    entries: entriesOf(written),
    limit: null,
    hits_addend: hits === 0 ? { value: 0 } : null, // 0 for the whole request would mean 1
    is_negative_hits: false,
  })),
  hits_addend: hits,
});

export function count(written: string): number {
  const value = /^\d+$/.test(written) ? Number(written) : Number.NaN;
  if (value <= MAX_UINT32) return value;
  throw new InvalidArgumentError(`expected a whole number from 0 to ${MAX_UINT32}.`);
}
