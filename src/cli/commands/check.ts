import { readFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { version } from '../process/process.ts';
import { list, type Surroundings } from './admin.ts';

export interface CheckSurroundings extends Surroundings {
  readonly cwd: string;
}

/** Adds the command that checks rule files, and the one that runs tests of them. */
export function addCheckCommands(program: Command, surroundings: CheckSurroundings): void {
  program
    .command('check')
    .summary('check rule files and settings')
    .description(
      'Find problems in rule files and settings, with the same checks as the service. Exits with 1 if there is an error.',
    )
    .argument(
      '[path...]',
      'rule files or directories; - reads standard input; none: the rules that the environment names',
    )
    .addOption(
      new Option('--backend <name>', 'store of the counters, instead of the one that the environment names').choices([
        'memory',
        'redis',
        'memcached',
      ]),
    )
    .addOption(
      new Option('--format <name>', 'output format of problems')
        .choices(['text', 'json', 'github', 'sarif'])
        .default('text'),
    )
    .addOption(new Option('--json', 'the same as --format json').implies({ format: 'json' }))
    .option(
      '--route-timeout <time>',
      "longest timeout of the proxy's routes, which the ttl of in_flight must exceed: 15s",
    )
    .option('--merge-domains', 'merge files with the same domain (MERGE_DOMAIN_CONFIG)', false)
    .option('--strict', 'also exit with 1 for warnings', false)
    .option(
      '--overlay <path>',
      'overlay file, or directory of them, instead of RULES_OVERLAY; may be given several times',
      list(String),
      [],
    )
    .action((paths: readonly string[], flags: CheckFlags) => checkRules(paths, flags, surroundings));
  program
    .command('test')
    .summary('run tests of rule files')
    .description('Run tests of rule files: which rule a request matches, and its answer. Exits with 1 if a test fails.')
    .argument('<file...>', 'YAML files of tests')
    .option('--rules <path>', 'rule file or directory, instead of the one that the tests name')
    .option('--json', 'print the results as JSON', false)
    .action((files: readonly string[], flags: TestFlags) => testRules(files, flags, surroundings));
}

interface TestFlags {
  readonly rules?: string;
  readonly json: boolean;
}

interface CheckFlags {
  readonly backend?: 'memory' | 'redis' | 'memcached';
  readonly format: 'text' | 'json' | 'github' | 'sarif';
  readonly mergeDomains: boolean;
  readonly strict: boolean;
}

async function checkRules(
  paths: readonly string[],
  { format, ...options }: CheckFlags,
  { env, cwd, print, fail, exitWith }: CheckSurroundings,
): Promise<void> {
  const { check, lineReader } = await import('../check/check.ts');
  const { formats, summarize } = await import('../check/formats.ts');
  const stdin = paths.includes('-') ? readFileSync(0, 'utf8') : undefined;
  const checked = await check(paths, env, { ...options, stdin });
  const printed = formats[format](checked, { version, lineOf: lineReader(stdin), cwd });
  if (printed !== '') print(printed);
  if (checked.isValid) return;
  if (format === 'text') fail(summarize(checked));
  else exitWith(1);
}

async function testRules(
  files: readonly string[],
  { rules, json }: TestFlags,
  { env, print, fail, exitWith }: Surroundings,
): Promise<void> {
  const [{ runRuleTests }, { InvalidSettings }, { printableJson, printableLines }] = await Promise.all([
    import('../check/rule-tests.ts'),
    import('../../settings/values.ts'),
    import('../../base/printable.ts'),
  ]);
  try {
    const { lines, failed } = await runRuleTests(files, rules, env);
    if (json) {
      print(printableJson({ failed, results: lines }));
      return exitWith(failed > 0 ? 1 : 0);
    }
    for (const line of lines) print(printableLines(line));
    if (failed > 0) fail(`${failed} of ${lines.length} failed`);
  } catch (error) {
    if (!(error instanceof InvalidSettings)) throw error;
    fail(error.message);
  }
}
