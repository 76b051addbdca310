import type { Overrides } from '../../engine/decide/overrides.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { TrialReport } from '../candidate/report.ts';
import { beginMetric, betweenMetrics, type ExpositionFormat, writeLabels, writeSeries } from '../observe/exposition.ts';
import { type CandidateOptions, reportOf } from './candidate-operations.ts';
import type { AdminOptions } from './options.ts';

/** Writes `weir_unmatched_total` for Prometheus, summed over all running processes. */
export async function unmatchedMetrics(ask: AdminOptions['ask'], format: ExpositionFormat): Promise<string> {
  const sums = new Map<string, number>();
  for (const { reply } of await ask({ kind: 'unmatched' })) {
    for (const { domain, reason, count } of reply.report.counts) {
      const labels = writeLabels(Object.entries({ domain, reason }));
      sums.set(labels, (sums.get(labels) ?? 0) + count);
    }
  }
  const help = 'Descriptors that matched no rule, by reason: see /api/v1/unmatched.';
  const name = 'weir_unmatched_total';
  const lines = Array.from(sums, ([labels, count]) => writeSeries(name, labels, count)).join('');
  return `${beginMetric(name, 'counter', help, format)}${lines}${betweenMetrics(format)}`;
}

/** Writes `weir_overrides` for Prometheus. @param rules  domains without rules are counted together */
export function overrideMetrics(
  overrides: Pick<Overrides, 'all'>,
  rules: RuleTree | undefined,
  format: ExpositionFormat,
): string {
  const counts = new Map<string, number>();
  for (const { domain, effect } of overrides.all()) {
    const known = rules?.domains.has(domain) ? domain : '(other)';
    const labels = writeLabels(Object.entries({ domain: known, effect: effect.kind }));
    counts.set(labels, (counts.get(labels) ?? 0) + 1);
  }
  const name = 'weir_overrides';
  const help = 'Limits, blocks and exemptions that operators have set for single descriptors: see /api/v1/overrides.';
  const lines = Array.from(counts, ([labels, count]) => writeSeries(name, labels, count)).join('');
  return `${beginMetric(name, 'gauge', help, format)}${lines}${betweenMetrics(format)}`;
}

/** The most rules listed: scrapers limit the size of a page. */
const MAX_RULES = 2_000;

type Series = readonly (readonly [labels: Readonly<Record<string, string>>, value: number])[];

/** Writes `weir_candidate_*` for Prometheus, summed over all processes; without a candidate, only `…_on`. */
export async function candidateMetrics(
  options: Pick<CandidateOptions, 'ask' | 'candidate'>,
  format: ExpositionFormat,
): Promise<string> {
  const { state } = options.candidate.facts;
  const metric = (name: string, type: 'counter' | 'gauge', help: string, series: Series): string =>
    `${beginMetric(name, type, help, format)}${series.map(([labels, value]) => writeSeries(name, writeLabels(Object.entries(labels)), value)).join('')}${betweenMetrics(format)}`;
  const isOn = metric(
    'weir_candidate_on',
    'gauge',
    '1 while a candidate is tried; 0 if there is none or it is invalid: see /api/v1/candidate.',
    [[{}, state === 'on' ? 1 : 0]],
  );
  const report = await reportOf(options, 0);
  if (!report) return isOn;
  return [
    isOn,
    metric(
      'weir_candidate_decisions_total',
      'counter',
      'Descriptors by the decisions of the live rules and of the candidate: ok or refused.',
      report.rules.slice(0, MAX_RULES).flatMap(decisionsOf),
    ),
    metric(
      'weir_candidate_dropped_total',
      'counter',
      'Requests not tried on the candidate, by reason: behind or overload.',
      [
        [{ reason: 'behind' }, report.dropped.behind],
        [{ reason: 'overload' }, report.dropped.overload],
      ],
    ),
    metric('weir_candidate_failed_total', 'counter', "Requests for which the candidate's counters did not reply.", [
      [{}, report.failed],
    ]),
    metric('weir_candidate_in_flight', 'gauge', 'Requests that are being tried on the candidate, or wait for it.', [
      [{}, report.inFlight],
    ]),
  ].join('');
}

function decisionsOf({ rule, ...tally }: TrialReport['rules'][number]): Series {
  const { requests, liveRefused, candidateRefused, newlyRefused, newlyPassed } = tally;
  const bothRefused = candidateRefused - newlyRefused;
  const bothPassed = requests - liveRefused - newlyRefused;
  return [
    [{ rule, live: 'ok', candidate: 'ok' }, bothPassed],
    [{ rule, live: 'ok', candidate: 'refused' }, newlyRefused],
    [{ rule, live: 'refused', candidate: 'ok' }, newlyPassed],
    [{ rule, live: 'refused', candidate: 'refused' }, bothRefused],
  ];
}
