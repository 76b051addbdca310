import type { Command } from 'commander';
import { command, count, queryOf, SHOW, type Surroundings } from './admin.ts';
import { CommandFailed, callApi, guarded, type Target } from './client.ts';
import { renderCandidate, renderCandidateDiff, type SentCandidate, type SentDiff } from './render-candidate.ts';
import { show } from './show.ts';

interface CandidateFlags extends Target {
  readonly json: boolean;
}

interface ShowFlags extends CandidateFlags {
  readonly rule?: string;
  readonly count: number;
}

interface ChangeFlags extends CandidateFlags {
  readonly reason: string;
}

const PATH = '/api/v1/candidate';

/** Adds the commands for trying rules on live traffic. */
export function addCandidateCommand(program: Command, surroundings: Surroundings): void {
  const { print, fail, ...around } = surroundings;
  const output = { print, ...around };
  const candidate = program
    .command('candidate')
    .summary('try rules on live traffic')
    .description(
      'Try rules on live traffic, beside those in force; without a subcommand, show what they would change.',
    );
  command(candidate, SHOW, 'show what the candidate would change (the default)', around.env)
    .option('--rule <path>', 'only of this rule')
    .option('--count <n>', 'how many keys of each rule', count, 10)
    .action(
      guarded(fail, async (flags: ShowFlags) => {
        const query = queryOf({ rule: flags.rule, count: flags.count });
        show(flags, await callApi<SentCandidate>(flags, 'GET', `${PATH}?${query}`), renderCandidate, output);
      }),
    );
  command(candidate, 'load', 'try a rule file, replacing the current candidate', around.env)
    .argument('<file>', 'rule file; - is standard input')
    .requiredOption('--reason <text>', 'reason, for the audit log')
    .action(
      guarded(fail, async (file: string, flags: ChangeFlags) => {
        const text = await textAt(file);
        const sent = { type: 'application/yaml', text };
        const found = await callApi<SentCandidate>(flags, 'POST', `${PATH}?${queryOf({ reason: flags.reason })}`, sent);
        show(flags, found, renderCandidate, output);
      }),
    );
  command(candidate, 'clear', 'end the trial', around.env)
    .requiredOption('--reason <text>', 'reason, for the audit log')
    .action(
      guarded(fail, async (flags: ChangeFlags) => {
        const found = await callApi<SentCandidate>(flags, 'DELETE', PATH, { reason: flags.reason });
        show(flags, found, renderCandidate, output);
      }),
    );
  command(candidate, 'diff', 'print what changes if the candidate is put in force', around.env).action(
    guarded(fail, async (flags: CandidateFlags) => {
      show(flags, await callApi<SentDiff>(flags, 'GET', `${PATH}/diff`), renderCandidateDiff, output);
    }),
  );
}

/** @throws CommandFailed */
async function textAt(file: string): Promise<string> {
  const { readFile } = await import('node:fs/promises');
  try {
    return await readFile(file === '-' ? '/dev/stdin' : file, 'utf8');
  } catch (error) {
    throw new CommandFailed(error instanceof Error ? error.message : String(error));
  }
}
