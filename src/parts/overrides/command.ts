import type { Command } from 'commander';
import { counted } from '../../base/texts.ts';
import { rfc3339 } from '../../base/times.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import type { SetOverride } from '../../edge/http/shapes.ts';
import { parseDescriptor } from '../../edge/listing/descriptor-text.ts';
import { unitMs } from '../../engine/algorithms/limit.ts';
import type { Answers } from '../../operate/answers/all.ts';
import { command, onDescriptor, type Reasoned, span, withReason } from '../lab/commands/admin.ts';
import { CommandFailed, printAnswer } from '../lab/commands/client.ts';

/** Adds the commands that limit, block or exempt descriptors. */
export function addOverrideCommands(program: Command, surroundings: Surroundings): void {
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
      const named = { domain, descriptor: parseDescriptor(descriptor), ...wildcardOf(options) };
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
      body: { domain, descriptor: parseDescriptor(descriptor), ...wildcardOf(options), reason },
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

const wildcardOf = ({ wildcard }: Wildcard): Wildcard => ({ ...(wildcard && { wildcard }) });

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

export const renderOverride = ({
  domain,
  descriptor,
  wildcard,
  effect,
  until,
  by,
  reason,
  warning,
}: SetOverride): string =>
  `${domain} ${descriptor}${wildcard ? ' (wildcard)' : ''}  ${effect} until ${until}  by ${by}: ${reason}${warning === undefined ? '' : `\n  warning: ${warning}`}`;

export const renderRemoved = (removed: SetOverride): string => `removed: ${renderOverride(removed)}`;

export const renderOverrides = ({ overrides }: Answers['GET /api/v1/overrides']): string =>
  overrides.length === 0 ? 'no overrides' : overrides.map((one) => renderOverride(one)).join('\n');

export function renderPreview({ counters, isAtLeast, examples }: Answers['GET /api/v1/overrides/preview']): string {
  const more = counters > examples.length ? ['…'] : [];
  const lines = [...examples, ...more].map((one) => `  ${one}`);
  return [`${isAtLeast ? 'at least ' : ''}${counted(counters, 'counter')}`, ...lines].join('\n');
}
