import { take } from '../../base/slices.ts';
import { counted } from '../../base/texts.ts';
import type { SiteSplit } from '../../engine/holds/claim.ts';
import { hashRules, type PackedRules } from '../../engine/rules/compile/packed.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { MayBeOverlaid } from '../../engine/rules/read/overlaid.ts';
import {
  countProblems,
  formatLine,
  formatProblem,
  isUnread,
  MAX_KEPT_PROBLEMS,
  type Problem,
} from '../../engine/rules/read/problem.ts';
import type { LoadedRules } from '../../engine/rules/reload/load.ts';
import type { Logger } from './log.ts';
import { compareRules, type Reload } from './reload.ts';
import type { Statistics } from './stats.ts';

/** The most problems logged for one load: thousands of lines would delay requests. */
const MAX_LOGGED_PROBLEMS = 200;

/** Called with each load, and the source of the rules, for messages. Returns the effect of a reload. */
export type OnLoad = (loaded: LoadedRules, from: string) => Reload | undefined;

/** Counts loads, and logs their problems or their changes. @param split  for limits that sites share */
export function logRuleLoads(statistics: Statistics, log: Logger, split: SiteSplit | undefined): OnLoad {
  let inForce: PackedRules | undefined;
  let isTroubled = false;
  return (loaded, from) => {
    statistics.rulesLoaded(loaded.ok);
    logProblems(loaded.ok ? loaded.warnings : loaded.problems, log);
    if (!loaded.ok) {
      const next = isUnread(loaded.problems) ? 'can be read' : 'are valid';
      if (inForce)
        log.error(`the rules in force are kept: hash ${hashRules(inForce)}; newer ones apply when they ${next}`);
      isTroubled = true;
      return undefined;
    }
    const { rules, packed = [] } = loaded;
    const what = describeRules(rules, packed, from);
    const reload = inForce && compareRules(inForce, packed, split);
    const how = isTroubled ? 'the rules are valid again: reloaded' : 'reloaded';
    log.info(reload ? `${how} ${what}: ${reload.text ?? 'no rule has changed'}` : `loaded ${what}`);
    inForce = packed;
    isTroubled = false;
    if (log.isLevelEnabled('debug'))
      for (const line of take(MAX_LOGGED_PROBLEMS, listOverlaid(rules.rules))) log.debug(line);
    return reload;
  };
}

const describeRules = ({ rules, domains }: RuleTree, packed: PackedRules, from: string): string =>
  `${counted(rules.length, 'rule')} of ${counted(domains.size, 'domain')} from ${from}, hash ${hashRules(packed)}`;

/** One text for each property, for logs: `demo.user: burst comes from overlay.yaml:7`. */
export function* listOverlaid(rules: Iterable<MayBeOverlaid & { readonly path: string }>): Iterable<string> {
  for (const { path, overlaid = [] } of rules) {
    for (const { limit, key, file, line } of overlaid) {
      const which = limit === undefined || limit === 0 ? key : `${key} of limit ${limit + 1}`;
      yield `${path}: ${which} comes from ${formatLine({ file, line })}`;
    }
  }
}

export function logProblems(problems: readonly Problem[], log: Logger): void {
  for (const problem of problems.slice(0, MAX_LOGGED_PROBLEMS))
    log[problem.severity === 'error' ? 'error' : 'warn'](formatProblem(problem));
  if (problems.length <= MAX_LOGGED_PROBLEMS) return;
  const more = countProblems(problems) - MAX_LOGGED_PROBLEMS;
  const all = problems[0]?.line === undefined ? '' : '; weir check lists them all'; // it reads files
  log.warn(`… and ${more} more; /rlconfig?verbose on the debug port lists up to ${MAX_KEPT_PROBLEMS}${all}`);
}
