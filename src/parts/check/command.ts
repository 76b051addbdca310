import { readFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { version } from '../../cli/process/process.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import { list } from '../lab/commands/admin.ts';

/** Adds the command that checks rule files. */
export function addCheckCommand(program: Command, surroundings: Surroundings): void {
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
  { env, cwd, print, fail, exitWith }: Surroundings,
): Promise<void> {
  const { check, lineReader } = await import('./check.ts');
  const { formats, summarize } = await import('./formats.ts');
  const stdin = paths.includes('-') ? readFileSync(0, 'utf8') : undefined;
  const checked = await check(paths, env, { ...options, stdin });
  const printed = formats[format](checked, { version, lineOf: lineReader(stdin), cwd });
  if (printed !== '') print(printed);
  if (checked.isValid) return;
  if (format === 'text') fail(summarize(checked));
  else exitWith(1);
}
