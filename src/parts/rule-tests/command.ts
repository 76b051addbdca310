import type { Command } from 'commander';
import { printableJson, printableLines } from '../../base/printable.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import { guarded } from '../lab/commands/client.ts';

/** Adds the command that runs tests of rule files. */
export function addTestCommand(program: Command, surroundings: Surroundings): void {
  program
    .command('test')
    .summary('run tests of rule files')
    .description('Run tests of rule files: which rule a request matches, and its answer. Exits with 1 if a test fails.')
    .argument('<file...>', 'YAML files of tests')
    .option('--rules <path>', 'rule file or directory, instead of the one that the tests name')
    .option('--json', 'print the results as JSON', false)
    .action(
      guarded(surroundings.fail, (files: readonly string[], flags: TestFlags) => testRules(files, flags, surroundings)),
    );
}

interface TestFlags {
  readonly rules?: string;
  readonly json: boolean;
}

async function testRules(
  files: readonly string[],
  { rules, json }: TestFlags,
  { env, print, fail, exitWith }: Surroundings,
): Promise<void> {
  const { runRuleTests } = await import('./rule-tests.ts');
  const { lines, failed } = await runRuleTests(files, rules, env);
  if (json) {
    print(printableJson({ failed, results: lines }));
    return exitWith(failed > 0 ? 1 : 0);
  }
  for (const line of lines) print(printableLines(line));
  if (failed > 0) fail(`${failed} of ${lines.length} failed`);
}
