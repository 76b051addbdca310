import type { Command } from 'commander';
import type { Surroundings } from '../../cli/surroundings.ts';
import { DESCRIPTOR, parseDescriptor } from '../../edge/listing/descriptor-text.ts';
import { command, onDescriptor, type Reasoned, withReason } from '../lab/commands/admin.ts';
import { CommandFailed, printAnswer } from '../lab/commands/client.ts';
import { renderCounters } from './render.ts';

/** Adds the commands that show, list and change counters. */
export function addCounterCommands(program: Command, surroundings: Surroundings): void {
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
