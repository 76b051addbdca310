import { inSlices, take } from '../../base/slices.ts';
import { hashOf, type PackedRules } from '../../engine/rules/compile/packed.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { listOverlaid } from '../../engine/rules/read/overlaid.ts';
import { countProblems, formatProblem, MAX_KEPT_PROBLEMS, type Problem } from '../../engine/rules/read/problem.ts';
import type { LoadedRules } from '../../engine/rules/reload/load.ts';
import type { CompareRules, Reload } from '../../engine/rules/reload/reload.ts';
import type { Logger } from './log.ts';
import type { Statistics } from './stats.ts';

/** The most problems logged for one load: thousands of lines would delay requests. */
const MAX_LOGGED_PROBLEMS = 200;

/** The result of a load, and the data to report it. */
interface RuleLoad {
  readonly loaded: LoadedRules;
  /** For messages: the source of the rules. */
  readonly from: string;
  readonly compare: CompareRules;
}

/** Called with each load. Resolves with the effect of a reload. */
export type OnLoad = (load: RuleLoad) => Promise<Reload | undefined>;

/** Counts loads, and logs their problems or their changes. */
export function logRuleLoads(statistics: Statistics, log: Logger): OnLoad {
  let inForce: PackedRules | undefined;
  let isTroubled = false;
  const logReload = async (what: string, isRecovery: boolean, reload: Promise<Reload>): Promise<Reload | undefined> => {
    const reloaded = `${isRecovery ? 'the rules are valid again: ' : ''}reloaded ${what}`;
    try {
      const found = await reload;
      log.info(`${reloaded}: ${found.text ?? 'no rule has changed'}`);
      return found;
    } catch (error) {
      // the process failed, e.g. out of memory
      const text = `changes unknown: ${error instanceof Error ? error.message : error}`;
      log.info(`${reloaded}: ${text}`);
      return { text, countersKept: [], countersAnew: [] };
    }
  };
  return async ({ loaded, from, compare }) => {
    statistics.rulesLoaded(loaded.ok);
    logProblems(loaded.ok ? loaded.warnings : loaded.problems, log);
    if (!loaded.ok) {
      if (inForce) log.error(`the rules in force are kept: hash ${hashOf(inForce)}`);
      isTroubled = true;
      return undefined;
    }
    const { rules, packed = [] } = loaded;
    const what = describeRules(rules, packed, from);
    if (!inForce) log.info(`loaded ${what}`);
    const reload = inForce && logReload(what, isTroubled, compare(inForce, packed));
    inForce = packed;
    isTroubled = false;
    if (log.isLevelEnabled('debug')) await logOverlaid(rules, log);
    return reload;
  };
}

async function logOverlaid({ rules }: RuleTree, log: Logger): Promise<void> {
  let left = MAX_LOGGED_PROBLEMS;
  for await (const slice of inSlices(rules)) {
    for (const line of take(left, listOverlaid(slice))) {
      log.debug(line);
      left--;
    }
    if (left === 0) return;
  }
}

const describeRules = ({ rules, domains }: RuleTree, packed: PackedRules, from: string): string =>
  `${rules.length} rules of ${domains.size} domains from ${from}, hash ${hashOf(packed)}`;

export function logProblems(problems: readonly Problem[], log: Logger): void {
  for (const problem of problems.slice(0, MAX_LOGGED_PROBLEMS))
    log[problem.severity === 'error' ? 'error' : 'warn'](formatProblem(problem));
  if (problems.length <= MAX_LOGGED_PROBLEMS) return;
  const more = countProblems(problems) - MAX_LOGGED_PROBLEMS;
  const all = problems[0]?.line === undefined ? '' : '; weir check lists them all'; // it reads files
  log.warn(`… and ${more} more; /rlconfig?verbose on the debug port lists up to ${MAX_KEPT_PROBLEMS}${all}`);
}
