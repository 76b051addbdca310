import { rfc3339 } from '../../base/times.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { shownProblems } from '../../operate/admin/rule-text-operations.ts';
import { describeTop } from '../../operate/admin/top-keys.ts';
import type { TriedCandidate, TriedKeys, TriedRule } from './answers.ts';
import { type ChangedKeys, noTally, type RuleTrial, type TrialReport } from './report.ts';

/** The figures before any process tries the candidate. */
const noFigures: Omit<TrialReport, 'sinceMs' | 'hash'> = {
  ...{ ruleCount: 0, inFlight: 0, inFlightBytes: 0, dropped: { behind: 0, overload: 0 } },
  ...{ failed: 0, withheld: 0, evicted: 0, totals: noTally, rules: [], moreRules: 0 },
};

const MAX_SHOWN_RULES = 500;

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
  const { inFlight, inFlightBytes, dropped, failed, withheld, evicted, totals, rules, moreRules } = report ?? noFigures;
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
    inFlight,
    inFlightBytes,
    maxInFlight: settings.candidate.maxInFlight * settings.workers,
    dropped,
    failed,
    withheld,
    evicted,
    totals,
    rules: rules.slice(0, MAX_SHOWN_RULES).map((rule) => showRule(rule, keys, hash)),
    moreRules: moreRules + Math.max(rules.length - MAX_SHOWN_RULES, 0),
  };
}

function showRule(trial: RuleTrial, most: number, hash: AdminOptions['hash']): TriedRule {
  const shown = ({ list, count, isAtLeast }: ChangedKeys): TriedKeys => {
    const top = { rule: trial.rule, by: 'refusals', list, countedOneIn: 1 } as const;
    const { unlistedAtMost, keys } = describeTop(top, most, hash);
    return { count, isAtLeast, unlistedAtMost, keys };
  };
  const { newlyRefusedKeys, newlyPassedKeys } = trial;
  return { ...trial, newlyRefusedKeys: shown(newlyRefusedKeys), newlyPassedKeys: shown(newlyPassedKeys) };
}
