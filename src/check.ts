import { loadSource } from './rules/book.ts';
import { plainPath, type RuleSource } from './rules/files.ts';
import type { RuleFileState } from './rules/load.ts';
import { formatProblem } from './rules/problem.ts';
import type { RuleTree } from './rules/tree.ts';

export interface CheckOptions {
  /** Files of the same domain are put together instead of refused. */
  readonly mergeDomains: boolean;
  /** A warning counts as an error does. */
  readonly strict: boolean;
}

/** What came of a check. */
export interface Checked {
  readonly isRight: boolean;
  /** A line a problem, by file and line; then notes, which are right, but do not go with everything that callers may do. */
  readonly problems: readonly string[];
  /** `all right: 2 domain(s), 7 rule(s)`, or `1 error(s), 2 warning(s)`. */
  readonly summary: string;
}

/**
 * Says whether rule files are right, as the service would find them.
 *
 * @param paths  files, or directories of files; what they hold must go together
 */
export async function check(paths: readonly string[], { mergeDomains, strict }: CheckOptions): Promise<Checked> {
  const loaded = await loadSource(together(paths), { mergeDomains });
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
    problems: [...lines, ...notesOn(loaded.rules)],
    summary: `all right: ${domains.size} domain(s), ${rules.length} rule(s)${more}`,
  };
}

/** Envoy cannot know that a refused request has spent nothing, and gives its hits back with the end of its stream all the same. */
const notesOn = ({ domains }: RuleTree): readonly string[] =>
  Array.from(domains)
    .filter(([, { spend }]) => spend === 'all_or_nothing')
    .map(
      ([domain]) =>
        `note: domain '${domain}' spends all_or_nothing: do not let it limit requests in flight by negative hits at the end of streams, since refused ones would give back what they have not taken`,
    );

/** What several paths hold; the first that cannot be read is named. */
const together = (paths: readonly string[]): RuleSource => ({
  description: paths.join(', '),
  async list() {
    const lists: (readonly RuleFileState[])[] = [];
    for (const path of paths) lists.push(await plainPath(path).list());
    return lists.flat();
  },
});
