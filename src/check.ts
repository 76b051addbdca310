import { loadSource } from './rules/book.ts';
import { plainPath } from './rules/files.ts';
import { formatProblem } from './rules/problem.ts';

export interface CheckOptions {
  /** Files of the same domain are put together instead of refused. */
  readonly mergeDomains: boolean;
  /** A warning counts as an error does. */
  readonly strict: boolean;
}

/** What came of a check. */
export interface Checked {
  readonly isRight: boolean;
  /** A line a problem, by file and line. */
  readonly problems: readonly string[];
  /** `all right: 2 domain(s), 7 rule(s)`, or `1 error(s), 2 warning(s)`. */
  readonly summary: string;
}

/**
 * Says whether rule files are right, as the service would find them.
 *
 * @param paths  files, or directories of files; what they hold must go together
 */
export function check(paths: readonly string[], { mergeDomains, strict }: CheckOptions): Checked {
  const sources = paths.map(plainPath);
  const together = { description: paths.join(', '), list: () => sources.flatMap((source) => source.list()) };
  const loaded = loadSource(together, { mergeDomains });
  const problems = loaded.ok ? loaded.warnings : loaded.problems;
  const lines = problems.map(formatProblem);
  const warnings = problems.filter(({ severity }) => severity === 'warning').length;
  if (!loaded.ok || (strict && warnings > 0)) {
    const errors = problems.length - warnings;
    return { isRight: false, problems: lines, summary: `${errors} error(s), ${warnings} warning(s)` };
  }
  const { domains, rules } = loaded.rules;
  const more = warnings > 0 ? `, ${warnings} warning(s)` : '';
  return {
    isRight: true,
    problems: lines,
    summary: `all right: ${domains.size} domain(s), ${rules.length} rule(s)${more}`,
  };
}
