import { rfc3339 } from '../../base/times.ts';
import { countProblems, type Problem } from '../../engine/rules/read/problem.ts';
import type { RuleProblems, TriedCandidate, TriedKeys, TriedRule } from '../answers/rules.ts';
import { POSTED_NAME } from '../candidate/book.ts';
import { type ChangedKeys, noTally, type RuleTrial, type TrialReport } from '../candidate/report.ts';
import type { AdminOptions } from './options.ts';
import { describeTop } from './top-keys.ts';

const MAX_PROBLEMS = 200;
const MAX_SHOWN_RULES = 500;

/** At most `MAX_PROBLEMS` problems; those of a posted text have no file. */
export const shownProblems = (problems: readonly Problem[]): RuleProblems => ({
  problems: problems.slice(0, MAX_PROBLEMS).map(({ file, line, column, ...problem }) => ({
    ...(file !== POSTED_NAME && { file }),
    ...(line !== undefined && { line }),
    ...(column !== undefined && { column }),
    ...problem,
  })),
  moreProblems: Math.max(countProblems(problems) - MAX_PROBLEMS, 0),
});

/**
 * The candidate as the API shows it.
 *
 * @param report  merged from all processes; undefined: no process tries it yet
 */
export function showCandidate(
  { candidate: { facts }, settings, hash }: Pick<AdminOptions, 'candidate' | 'settings' | 'hash'>,
  report: TrialReport | undefined,
  keys: number,
): TriedCandidate {
  const { state, origin, posted, loadedAtMs, domains, ruleCount } = facts;
  const rules = report?.rules ?? [];
  return {
    state,
    origin: origin ?? null,
    from: origin === 'file' ? (settings.rules.candidate.path ?? null) : origin === 'api' ? 'the admin API' : null,
    by: posted?.by ?? null,
    reason: posted?.reason ?? null,
    loadedAt: loadedAtMs === undefined ? null : rfc3339(loadedAtMs),
    hash: facts.hash ?? null,
    domains,
    ruleCount,
    ...shownProblems(facts.problems),
    sample: settings.candidate.sample,
    since: report ? rfc3339(report.sinceMs) : null,
    inFlight: report?.inFlight ?? 0,
    inFlightBytes: report?.inFlightBytes ?? 0,
    maxInFlight: settings.candidate.maxInFlight * settings.workers,
    dropped: report?.dropped ?? { behind: 0, overload: 0 },
    failed: report?.failed ?? 0,
    withheld: report?.withheld ?? 0,
    evicted: report?.evicted ?? 0,
    totals: report?.totals ?? noTally,
    rules: rules.slice(0, MAX_SHOWN_RULES).map((rule) => showRule(rule, keys, hash)),
    moreRules: (report?.moreRules ?? 0) + Math.max(rules.length - MAX_SHOWN_RULES, 0),
  };
}

function showRule(rule: RuleTrial, keys: number, hash: ((text: string) => string) | undefined): TriedRule {
  const shown = (changed: ChangedKeys): TriedKeys => {
    const { list, count, isAtLeast } = changed;
    const { unlistedAtMost, keys: listed } = describeTop(
      { rule: rule.rule, by: 'refusals', list, countedOneIn: 1 },
      keys,
      hash,
    );
    return { count, isAtLeast, unlistedAtMost, keys: listed };
  };
  return {
    ...rule,
    newlyRefusedKeys: shown(rule.newlyRefusedKeys),
    newlyPassedKeys: shown(rule.newlyPassedKeys),
  };
}
