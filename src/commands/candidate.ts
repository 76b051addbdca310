import type { Command } from 'commander';
import { command, count, paintOf, queryOf, SHOW, type Surroundings } from './admin.ts';
import { CommandFailed, callApi, guarded, type Target } from './client.ts';
import { renderCandidate, renderCandidateDiff, type SentCandidate, type SentDiff } from './render-candidate.ts';

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

/** Adds the commands that try rules on live traffic. */
export function addCandidateCommand(program: Command, surroundings: Surroundings): void {
  const { print, fail, ...around } = surroundings;
  const shown = (flags: CandidateFlags, found: SentCandidate): string =>
    flags.json ? JSON.stringify(found, undefined, 2) : renderCandidate(found, paintOf(around));
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
        print(shown(flags, await callApi<SentCandidate>(flags, 'GET', `${PATH}?${query}`)));
      }),
    );
  command(candidate, 'load', 'try a rule file, instead of the candidate before', around.env)
    .argument('<file>', 'rule file; - is standard input')
    .requiredOption('--reason <text>', 'why: for the audit log')
    .action(
      guarded(fail, async (file: string, flags: ChangeFlags) => {
        const text = await textAt(file);
        const sent = { type: 'application/yaml', text };
        const found = await callApi<SentCandidate>(flags, 'POST', `${PATH}?${queryOf({ reason: flags.reason })}`, sent);
        print(shown(flags, found));
        if (found.state === 'wrong') throw new CommandFailed(`${file} is wrong, and nothing is tried`);
      }),
    );
  command(candidate, 'clear', 'end the trial', around.env)
    .requiredOption('--reason <text>', 'why: for the audit log')
    .action(
      guarded(fail, async (flags: ChangeFlags) => {
        print(shown(flags, await callApi<SentCandidate>(flags, 'DELETE', PATH, { reason: flags.reason })));
      }),
    );
  command(candidate, 'diff', 'print what it does to put the candidate in force', around.env).action(
    guarded(fail, async (flags: CandidateFlags) => {
      const found = await callApi<SentDiff>(flags, 'GET', `${PATH}/diff`);
      print(flags.json ? JSON.stringify(found, undefined, 2) : renderCandidateDiff(found, paintOf(around)));
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
