import type { Command } from 'commander';
import type { Surroundings } from '../../cli/commands/admin.ts';
import { CommandFailed, guarded } from '../../cli/commands/client.ts';
import { paintFor } from '../../cli/commands/paint.ts';

/** Adds the command that compares rules. */
export function addDiffCommand(program: Command, { print, fail, isTerminal, env }: Surroundings): void {
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
        const [
          { countDifferences, diffJson, diffRules },
          { diffText },
          { loadRulesAt, loadSettings },
          { printableJson },
        ] = await Promise.all([
          import('./diff/diff.ts'),
          import('./render-diff.ts'),
          import('../../cli/commands/load-rules.ts'),
          import('../../base/printable.ts'),
        ]);
        const settings = await loadSettings(env);
        const diff = diffRules(await loadRulesAt(before, [], settings), await loadRulesAt(after, [], settings));
        print(json ? printableJson(diffJson(diff)) : diffText(diff, paintFor(isTerminal, env.NO_COLOR)));
        const count = countDifferences(diff);
        if (exitCode && count > 0) throw new CommandFailed(`${count} differences`);
      }),
    );
}
