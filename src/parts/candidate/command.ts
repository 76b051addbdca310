import type { Command } from 'commander';
import { printableJson, printableLines } from '../../base/printable.ts';
import { counted } from '../../base/texts.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import type { Answers } from '../../operate/answers/all.ts';
import { command, count, type Reasoned, type ServiceFlags, SHOW, withReason } from '../lab/commands/admin.ts';
import { CommandFailed, callApi, guarded, printAnswer } from '../lab/commands/client.ts';
import { paintFor } from '../lab/commands/paint.ts';
import { renderCandidate, renderCandidateDiff } from './render-candidate.ts';

/** Adds the commands that compare rules, on files and on live traffic. */
export function addCandidateCommands(program: Command, surroundings: Surroundings): void {
  addDiffCommand(program, surroundings);
  addTrialCommand(program, surroundings);
}

function addTrialCommand(program: Command, surroundings: Surroundings): void {
  const candidate = program
    .command('candidate')
    .summary('try rules on live traffic')
    .description(
      'Try rules on live traffic beside the current rules; without a subcommand, show what they would change.',
    );
  const showing = command(candidate, SHOW, 'show what the candidate would change (the default)')
    .option('--rule <path>', 'only of this rule')
    .option('--count <n>', 'how many keys of each rule', count, 10);
  printAnswer(showing, surroundings, {
    call: (flags: { rule?: string; count: number }) => ({
      operation: 'GET /api/v1/candidate',
      query: { rule: flags.rule, count: flags.count },
    }),
    render: renderCandidate,
  });
  const load = command(candidate, 'load', 'try a rule file, replacing the current candidate').argument(
    '<file>',
    'rule file; - is standard input',
  );
  printAnswer(withReason(load), surroundings, {
    call: async (file: string, { reason }: Reasoned) => ({
      operation: 'POST /api/v1/candidate',
      query: { reason },
      body: { type: 'application/yaml', text: await textAt(file) },
    }),
    render: renderCandidate,
  });
  printAnswer(withReason(command(candidate, 'clear', 'end the trial')), surroundings, {
    call: ({ reason }: Reasoned) => ({ operation: 'DELETE /api/v1/candidate', body: { reason } }),
    render: renderCandidate,
  });
  printAnswer(
    command(candidate, 'diff', 'print what changes if the candidate replaces the current rules'),
    surroundings,
    {
      call: () => ({ operation: 'GET /api/v1/candidate/diff' }),
      render: (found, paint) => `${renderCandidateDiff(found, paint)}\n${HOW_TO_APPLY}`,
    },
  );
  addPatchCommand(candidate, surroundings);
}

const HOW_TO_APPLY =
  'to apply it, change the rules at their source (weir candidate patch, or the control plane), then run weir candidate clear';

function addPatchCommand(candidate: Command, surroundings: Surroundings): void {
  command(candidate, 'patch', 'print the candidate as a patch of the rule file, for git am --keep-cr')
    .option('--path <path>', 'path of the rule file in the repository; default: its path below RULES_PATH')
    .option('--write <file>', 'instead write the candidate to this copy of the rule file, keeping its comments')
    .action(
      guarded(
        surroundings.fail,
        async ({ path, write, ...flags }: ServiceFlags & { path?: string; write?: string }) => {
          const found = await callApi(flags, { operation: 'GET /api/v1/candidate/patch', query: { path } });
          if (flags.json || write === undefined) return printPatch(flags, found, surroundings);
          if ((await textAt(write)) !== found.before)
            throw new CommandFailed(
              `${write} differs from ${found.file}, which is in force: print the patch and merge it`,
            );
          await withFiles(({ writeFile }) => writeFile(write, found.after));
          surroundings.print(`${write} is written; for its commit:\n\n${printableLines(found.message.trimEnd())}`);
        },
      ),
    );
}

function printPatch(
  { json }: ServiceFlags,
  found: Answers['GET /api/v1/candidate/patch'],
  { print, isTerminal }: Surroundings,
): void {
  if (json) return print(printableJson(found));
  print(isTerminal ? printableLines(found.patch.trimEnd()) : found.patch.trimEnd());
}

const textAt = (file: string): Promise<string> =>
  withFiles(({ readFile }) => readFile(file === '-' ? '/dev/stdin' : file, 'utf8'));

/** @throws CommandFailed if a file cannot be read or written */
async function withFiles<T>(use: (files: typeof import('node:fs/promises')) => Promise<T>): Promise<T> {
  try {
    return await use(await import('node:fs/promises'));
  } catch (error) {
    throw new CommandFailed(error instanceof Error ? error.message : String(error));
  }
}

/** Adds the command that compares rules. */
function addDiffCommand(program: Command, { print, fail, isTerminal, env }: Surroundings): void {
  program
    .command('diff')
    .summary('compare rule files')
    .description(
      'Print what changes if new rules replace old ones: rules added, removed and changed; counters kept or restarted.',
    )
    .argument('<old>', 'rule file or directory')
    .argument('<new>', 'rule file or directory')
    .option('--json', 'print it as JSON', false)
    .option('--exit-code', 'exit with 1 if anything differs', false)
    .action(
      guarded(fail, async (before: string, after: string, { json, exitCode }: Record<'json' | 'exitCode', boolean>) => {
        const [{ countDifferences, diffJson, diffRules }, { diffText }, { loadRulesAt, loadSettings }] =
          await Promise.all([
            import('./diff/diff.ts'),
            import('./render-diff.ts'),
            import('../lab/commands/load-rules.ts'),
          ]);
        const settings = await loadSettings(env);
        const diff = diffRules(await loadRulesAt(before, [], settings), await loadRulesAt(after, [], settings));
        print(json ? printableJson(diffJson(diff)) : diffText(diff, paintFor(isTerminal, env.NO_COLOR)));
        const count = countDifferences(diff);
        if (exitCode && count > 0) throw new CommandFailed(counted(count, 'difference'));
      }),
    );
}
