import { rfc3339 } from '../../base/times.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { shownProblems } from '../../operate/admin/rule-text-operations.ts';
import { describeTop } from '../../operate/admin/top-keys.ts';
import type { TriedCandidate, TriedKeys, TriedRule } from './answers.ts';
import { type ChangedKeys, noTally, type RuleTrial, type TrialReport } from './report.ts';

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
