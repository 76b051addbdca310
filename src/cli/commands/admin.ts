import type { Readable } from 'node:stream';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Clock } from '../../base/clock.ts';
import { printable } from '../../base/printable.ts';
import { rfc3339 } from '../../base/times.ts';
import { unitMs } from '../../engine/algorithms/limit.ts';
import {
  bareEntry,
  DESCRIPTOR,
  parseAnyDescriptor,
  parseDescriptor,
} from '../../engine/rules/match/descriptor-text.ts';
import { MAX_UINT32 } from '../../engine/wire/wire.ts';
import type { RefusalPage } from '../../operate/answers/explain.ts';
import { CommandFailed, callApi, FOLLOW_INTERVAL_MS, guarded, printAnswer, show, type Target } from './client.ts';
import {
  renderAudit,
  renderCounters,
  renderNewRefusals,
  renderOverride,
  renderOverrides,
  renderPreview,
  renderRefusals,
  renderRemoved,
  renderTop,
  renderUnmatched,
} from './render.ts';

/** The parts of the process that commands use. */
export interface Surroundings {
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isTerminal: boolean;
  /** Prints a text and a line break. */
  readonly print: (text: string) => void;
  /** Prints an error, and makes the process exit with 1. */
  readonly fail: (message: string) => void;
  /** Makes the process exit with this code. */
  readonly exitWith: (code: number) => void;
}

/** Further parts of the process, for commands that read traffic. */
export interface ReplaySurroundings extends Surroundings {
  readonly input: Readable;
  /** Writes to standard output; resolves when more can be written. */
  readonly write: (text: string) => Promise<void>;
  /** Writes to standard error; undefined if it is not a terminal. */
  readonly showProgress: ((text: string) => void) | undefined;
}

/** Options of a command that calls a service. */
export interface ServiceFlags extends Target {
  readonly json: boolean;
}

interface RefusalOptions extends ServiceFlags {
  readonly domain?: string;
  readonly rule?: string;
  readonly request?: string;
  readonly wouldRefuse: boolean;
  readonly count: number;
  readonly follow: boolean;
}

/** Adds the commands that call the admin API. */
export function addAdminCommands(program: Command, surroundings: Surroundings): void {
  addExplain(program, surroundings);
  addViews(program, surroundings);
  addRefusals(program, surroundings);
  addAudit(program, surroundings);
  addCounters(program, surroundings);
  addOverrides(program, surroundings);
}

function addExplain(program: Command, surroundings: Surroundings): void {
  const { clock, print, fail } = surroundings;
  command(program, 'explain', 'explain the answer a request would get')
    .description(
      'Explain the answer a request would get, without counting it. Exits with 0 for any answer, and with 1 if there is none.',
    )
    .argument('<domain>')
    .argument('<descriptor...>', `${DESCRIPTOR}; one argument for each descriptor`)
    .option('--hits <n>', 'hits that the request counts', count, 1)
    .option('--rules <path>', 'explain from rule files with fresh counters, without a service')
    .option('--at <time>', 'with --rules: explain as of this time, such as 2026-11-27T00:00Z')
    .action(
      guarded(
        fail,
        async (
          domain: string,
          descriptors: string[],
          options: ServiceFlags & { hits: number; rules?: string; at?: string },
        ) => {
          const { clockAt, explainOffline, renderExplanation } = await import('./explain.ts');
          if (options.at !== undefined && options.rules === undefined)
            throw new CommandFailed('--at requires --rules: a service explains only its present answer');
          const request = createRequest(domain, descriptors, options.hits);
          const explanation =
            options.rules === undefined
              ? await callApi(options, { operation: 'POST /api/v1/explain', body: request })
              : await explainOffline(options.rules, request, clockAt(options.at, clock));
          show(options, explanation, renderExplanation, surroundings);
          if (!options.json) for (const note of commaNotes(descriptors)) print(note);
          if (!explanation.answer) throw new CommandFailed('the request has no answer');
        },
      ),
    );
}

function addViews(program: Command, surroundings: Surroundings): void {
  const unmatched = command(program, 'unmatched', 'list descriptors that matched no rule')
    .option('--domain <domain>', 'only of this domain')
    .option('--count <n>', 'how many', count, 20);
  printAnswer(unmatched, surroundings, {
    call: (query: { domain?: string; count: number }) => ({
      operation: 'GET /api/v1/unmatched',
      query: pick(query, 'domain', 'count'),
    }),
    render: (sent, paint) => renderUnmatched(sent, paint, unmatched.opts().domain),
  });
  const top = command(program, 'top', 'list the busiest descriptors of each rule')
    .addOption(new Option('--by <what>', 'what to count').choices(['hits', 'refusals', 'shadowed']).default('hits'))
    .option('--rule <path>', 'only of this rule')
    .option('--count <n>', 'how many of each rule', count, 10)
    .option('--follow', 'print it again every two seconds', false);
  printAnswer(top, surroundings, {
    call: (query: { by: string; rule?: string; count: number }) => ({
      operation: 'GET /api/v1/top',
      query: pick(query, 'by', 'rule', 'count'),
    }),
    render: renderTop,
  });
}

function addRefusals(program: Command, surroundings: Surroundings): void {
  command(program, 'refusals', 'list the last refusals (EXPLAIN_SAMPLE)')
    .option('--domain <domain>', 'only of this domain')
    .option('--rule <path>', 'only of this rule')
    .option('--request <id>', 'only of the request with this id (not_counted: trace)')
    .option('--would-refuse', 'instead list requests that passed though a limit would have refused them', false)
    .option('--count <n>', 'how many', count, 20)
    .option('--follow', 'keep printing new ones', false)
    .action(
      guarded(surroundings.fail, async (options: RefusalOptions) => {
        if (!options.follow) return show(options, await fetchRefusals(options), renderRefusals, surroundings);
        let render = renderRefusals;
        for await (const page of newRefusals(options)) {
          show(options, page, render, surroundings);
          render = renderNewRefusals;
        }
      }),
    );
}

const fetchRefusals = (options: RefusalOptions, since?: string): Promise<RefusalPage> => {
  const of = options.wouldRefuse ? 'would_refuse' : 'refused';
  const query = { ...pick(options, 'domain', 'rule', 'request', 'count'), of, since };
  return callApi(options, { operation: 'GET /api/v1/refusals', query });
};

/** Yields the newest refusals, then new ones as they arrive, without empty pages. */
async function* newRefusals(options: RefusalOptions): AsyncIterable<RefusalPage> {
  let known = { ...(await fetchRefusals(options)), more: 0 };
  yield known;
  for (;;) {
    const { next, dropped } = known;
    const page = await fetchRefusals(options, next);
    const { more, lost, droppedSince = Math.max(page.dropped - dropped, 0) } = page;
    const unseen = { ...page, more: 0, dropped: droppedSince }; // the next page lists the others
    if (page.refusals.length > 0 || lost > 0 || unseen.dropped > 0) yield unseen;
    known = { ...page, more: 0 };
    if (more === 0) await new Promise((resolve) => setTimeout(resolve, FOLLOW_INTERVAL_MS));
  }
}

function addAudit(program: Command, surroundings: Surroundings): void {
  const audit = command(program, 'audit', 'list the newest changes of operators').option(
    '--count <n>',
    'how many',
    count,
    20,
  );
  printAnswer(audit, surroundings, {
    call: (query: { count: number }) => ({ operation: 'GET /api/v1/audit', query: pick(query, 'count') }),
    render: renderAudit,
  });
}

function addCounters(program: Command, surroundings: Surroundings): void {
  const get = command(program, 'get', 'show or list counters')
    .argument('[domain]', 'domain of the counters; none: list all counters, a page at a time')
    .argument('[descriptor]', DESCRIPTOR)
    .option('--rule <path>', 'list only counters of this rule')
    .option('--after <next>', 'continue the list from `next` of the previous page');
  printAnswer(get, surroundings, {
    call(domain: string | undefined, descriptor: string | undefined, options: { rule?: string; after?: string }) {
      const { rule, after } = options;
      if (descriptor !== undefined && (rule !== undefined || after !== undefined))
        throw new CommandFailed('--rule and --after apply to lists: they cannot be used with a descriptor');
      return { operation: 'GET /api/v1/counters', query: { domain, descriptor, rule, after } };
    },
    render: renderCounters,
  });
  printAnswer(withReason(onDescriptor(command(program, 'reset', 'clear counters on every instance'))), surroundings, {
    call: (domain: string, descriptor: string, { reason }: Reasoned) => ({
      operation: 'POST /api/v1/counters/reset',
      body: { domain, descriptor: parseDescriptor(descriptor), reason },
    }),
    render: renderCounters,
  });
  const grant = onDescriptor(command(program, 'grant', 'give hits back to counters')).argument(
    '<hits>',
    "how many; of a budget an amount such as '12.50 USD'",
  );
  printAnswer(withReason(grant), surroundings, {
    call(domain: string, descriptor: string, given: string, { reason }: Reasoned) {
      const granted = /^\d+$/.test(given) ? { hits: Number(given) } : { amount: given };
      const body = { domain, descriptor: parseDescriptor(descriptor), ...granted, reason };
      return { operation: 'POST /api/v1/counters/grant', body };
    },
    render: renderCounters,
  });
}

function addOverrides(program: Command, surroundings: Surroundings): void {
  const override = program
    .command('override')
    .summary('limit, block or exempt descriptors')
    .description('Limit, block or exempt one descriptor, or all that fit wildcards, for a time.');
  printAnswer(command(override, 'list', 'list overrides'), surroundings, {
    call: () => ({ operation: 'GET /api/v1/overrides' }),
    render: renderOverrides,
  });
  const set = onDescriptor(command(override, 'set', 'set an override of a descriptor, replacing the previous one'))
    .argument('<effect>', 'block, exempt, or a limit such as 100/minute')
    .requiredOption('--for <time>', 'how long: 30s, 15m, 2h, 7d', span);
  withWildcard(set);
  printAnswer(withReason(set), surroundings, {
    call(domain: string, descriptor: string, effect: string, options: Reasoned & Wildcard & { for: number }) {
      const until = rfc3339(surroundings.clock() + options.for);
      const named = { domain, descriptor: parseDescriptor(descriptor), ...pick(options, 'wildcard') };
      const body = { ...named, ...parseEffect(effect), until, reason: options.reason };
      return { operation: 'PUT /api/v1/overrides', body };
    },
    render: renderOverride,
  });
  const preview = command(override, 'preview', 'count the counters that an override with wildcards would touch');
  printAnswer(onDescriptor(preview), surroundings, {
    call: (domain: string, descriptor: string) => ({
      operation: 'GET /api/v1/overrides/preview',
      query: { domain, descriptor },
    }),
    render: renderPreview,
  });
  const remove = withWildcard(onDescriptor(command(override, 'remove', 'remove an override')));
  printAnswer(withReason(remove), surroundings, {
    call: (domain: string, descriptor: string, { reason, ...options }: Reasoned & Wildcard) => ({
      operation: 'DELETE /api/v1/overrides',
      body: { domain, descriptor: parseDescriptor(descriptor), ...pick(options, 'wildcard'), reason },
    }),
    render: renderRemoved,
  });
}

/** The flag of overrides with wildcards. */
interface Wildcard {
  readonly wildcard?: true;
}

const withWildcard = (added: Command): Command =>
  added.option('--wildcard', 'each value that ends in * stands for all values that begin with what precedes it');

/** @throws CommandFailed */
function parseEffect(written: string): object {
  if (written === 'block' || written === 'exempt') return { effect: written };
  const [, requestsPerUnit = '', typed = ''] = /^(\d{1,10})\/(\w+)$/.exec(written) ?? [];
  if (typed === '') throw new CommandFailed(`expected block, exempt, or a limit such as 100/minute, got '${written}'`);
  const unit = typed.toUpperCase();
  if (!(unit in unitMs)) {
    const known = Object.keys(unitMs).join(', ').toLowerCase();
    throw new CommandFailed(`expected a limit for one of ${known}, got '${typed}' in '${written}'`);
  }
  return { effect: 'limit', requestsPerUnit: Number(requestsPerUnit), unit };
}

const spanMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Parses a duration such as `30s`, in milliseconds; undefined if it is none. */
export function parseSpan(written: string): number | undefined {
  const [, number = '', unit = ''] = /^(\d{1,9})(ms|[smhd])$/.exec(written) ?? [];
  return unit === '' ? undefined : Number(number) * spanMs[unit as keyof typeof spanMs]; // by the pattern
}

/** Maximum duration of an override. */
const MAX_SPAN_MS = 365 * spanMs.d;

/** Parses the duration of a change, in milliseconds. */
export function span(written: string): number {
  const ms = parseSpan(written) ?? 0;
  if (ms >= spanMs.s && ms <= MAX_SPAN_MS) return ms;
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

/** Some properties of an object. */
const pick = <T extends object, K extends keyof T & string>(from: T, ...names: readonly K[]): Pick<T, K> =>
  Object.fromEntries(names.map((name) => [name, from[name]])) as Pick<T, K>; // as listed

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

const commaNotes = (descriptors: readonly string[]): readonly string[] =>
  descriptors.flatMap((written) => {
    const bare = bareEntry(written);
    return bare === undefined
      ? []
      : [String.raw`note: '${printable(bare)}' is an entry without a value; a comma in a value is written \,`];
  });

/** The body of `/json`. */
const createRequest = (domain: string, descriptors: readonly string[], hits: number): object => ({
  domain,
  descriptors: descriptors.map((written) => ({
    entries: parseAnyDescriptor(written),
    ...(hits === 0 && { hits_addend: 0 }), // 0 for the whole request would mean 1
  })),
  hits_addend: hits,
});

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
