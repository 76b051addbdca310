import type { LoadedTree } from '../rules/changes.ts';
import type { LoadedRules } from '../rules/load.ts';
import { listOverlaid } from '../rules/overlaid.ts';
import { hashOf } from '../rules/packed.ts';
import { formatProblem, type Problem } from '../rules/problem.ts';
import { describeReload, findReload, type Reload } from '../rules/reload.ts';
import type { Logger } from './log.ts';
import type { Statistics } from './stats.ts';

/** Logged problems per load: thousands of lines would delay requests. */
const MAX_LOGGED_PROBLEMS = 200;

/** Called with the result of each load and the source of the rules. Resolves with what a reload did. */
export type OnLoad = (loaded: LoadedRules, from: string) => Promise<Reload | undefined>;

/** Counts loads, and logs their problems or their changes. */
export function logRuleLoads(statistics: Statistics, log: Logger): OnLoad {
  let inForce: LoadedTree | undefined;
  let isTroubled = false;
  const logChange = async (
    before: LoadedTree | undefined,
    after: LoadedTree,
    from: string,
    isRecovery: boolean,
  ): Promise<Reload | undefined> => {
    const { rules, domains } = after.rules;
    const what = `${rules.length} rules of ${domains.size} domains from ${from}, hash ${hashOf(after.packed)}`;
    if (!before) {
      log.info(`loaded ${what}`);
      return undefined;
    }
    const reload = await findReload(before, after);
    const text = describeReload(reload) ?? 'no rule has changed';
    log.info(`${isRecovery ? 'the rules are valid again: ' : ''}reloaded ${what}: ${text}`);
    return reload;
  };
  return async (loaded, from) => {
    statistics.rulesLoaded(loaded.ok);
    logProblems(loaded.ok ? loaded.warnings : loaded.problems, log);
    if (!loaded.ok) {
      if (inForce) log.error(`the rules in force are kept: hash ${hashOf(inForce.packed)}`);
      isTroubled = true;
      return undefined;
    }
    const after = { rules: loaded.rules, packed: loaded.packed ?? [] };
    const reload = logChange(inForce, after, from, isTroubled);
    inForce = after;
    isTroubled = false;
    if (log.isLevelEnabled('debug'))
      for (const line of take(MAX_LOGGED_PROBLEMS, listOverlaid(loaded.rules.rules))) log.debug(line);
    return reload;
  };
}

export function logProblems(problems: readonly Problem[], log: Logger): void {
  for (const problem of problems.slice(0, MAX_LOGGED_PROBLEMS))
    log[problem.severity === 'error' ? 'error' : 'warn'](formatProblem(problem));
  const more = problems.length - MAX_LOGGED_PROBLEMS;
  if (more > 0) log.warn(`… and ${more} more; weir check, and /rlconfig?verbose on the debug port, list them all`);
}

function* take<T>(count: number, items: Iterable<T>): Iterable<T> {
  let left = count;
  for (const item of items) {
    if (left-- === 0) return;
    yield item;
  }
}
