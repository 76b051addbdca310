import type { Logger } from '../observe/log.ts';
import type { Statistics } from '../observe/stats.ts';
import { openRuleBook, type RuleBook } from '../rules/book.ts';
import { plainPath, runtimeDirectory } from '../rules/files.ts';
import type { LoadedRules } from '../rules/load.ts';
import { formatProblem } from '../rules/problem.ts';
import type { Settings } from '../settings.ts';
import { CannotStart } from './cannot-start.ts';

/** How often rule files are looked at for changes. */
const RULES_LOOK_INTERVAL_MS = 1_000;

/** The rules in force, and where they come from. */
export interface OpenRules {
  readonly book: RuleBook;
  /** What the last load came to; the rules in force may be older. */
  lastLoad(): LoadedRules | undefined;
  /** For people: a path. */
  readonly description: string;
}

/** @throws CannotStart  the rules at a plain path are wrong */
export function openRules(settings: Settings, statistics: Statistics, log: Logger): OpenRules {
  if ('controlPlane' in settings.rules) throw new CannotStart('CONFIG_TYPE: GRPC_XDS_SOTW is not there yet');
  const source = 'path' in settings.rules ? plainPath(settings.rules.path) : runtimeDirectory(settings.rules.runtime);
  let last: LoadedRules | undefined;
  const book = openRuleBook(source, {
    mergeDomains: settings.MERGE_DOMAIN_CONFIG,
    lookIntervalMs: RULES_LOOK_INTERVAL_MS,
    onLoad(loaded) {
      last = loaded;
      statistics.rulesLoaded(loaded.ok);
      for (const problem of loaded.ok ? loaded.warnings : loaded.problems) {
        if (problem.severity === 'error') log.error(formatProblem(problem));
        else log.warn(formatProblem(problem));
      }
      if (loaded.ok) log.info(`loaded ${loaded.rules.rules.length} rules from ${source.description}`);
    },
  });
  if (!book.rules() && 'path' in settings.rules) {
    book.close();
    throw new CannotStart(`the rules at ${source.description} are wrong: see above`);
  }
  return { book, lastLoad: () => last, description: source.description };
}
