import type { Command } from 'commander';
import { printable } from '../../base/printable.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import { bareEntry, DESCRIPTOR, parseAnyDescriptor } from '../../edge/listing/descriptor-text.ts';
import { command, count, type ServiceFlags } from '../lab/commands/admin.ts';
import { CommandFailed, callApi, guarded, show } from '../lab/commands/client.ts';

/** Adds the command that explains an answer. */
export function addExplainCommand(program: Command, surroundings: Surroundings): void {
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
          const { clockAt, explainOffline, renderExplanation } = await import('./render.ts');
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
