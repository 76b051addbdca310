import type { TrialReport } from '../candidate/report.ts';
import { beginMetric, betweenMetrics, type ExpositionFormat, writeLabels, writeSeries } from '../observe/exposition.ts';
import { type CandidateOptions, reportOf } from './candidate-operations.ts';

/** Rules that are listed: a page must not grow beyond what scrapers take. */
const MAX_RULES = 2_000;

type Series = readonly (readonly [labels: Readonly<Record<string, string>>, value: number])[];

/** Writes `weir_candidate_*` for Prometheus, of all processes that run now; without a candidate, that there is none. */
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
    '1 while a candidate is tried, 0 while there is none or it is wrong: see /api/v1/candidate.',
    [[{}, state === 'on' ? 1 : 0]],
  );
  const report = await reportOf(options, 0);
  if (!report) return isOn;
  return [
    isOn,
    metric(
      'weir_candidate_decisions_total',
      'counter',
      'Descriptors by what the live rules and the candidate said: ok or refused.',
      report.rules.slice(0, MAX_RULES).flatMap(decisionsOf),
    ),
    metric('weir_candidate_dropped_total', 'counter', 'Requests that were not tried, by why: behind or overload.', [
      [{ reason: 'behind' }, report.dropped.behind],
      [{ reason: 'overload' }, report.dropped.overload],
    ]),
    metric('weir_candidate_failed_total', 'counter', "Requests that the candidate's counters gave no answer for.", [
      [{}, report.failed],
    ]),
    metric('weir_candidate_in_flight', 'gauge', 'Requests that wait to be tried, or are being tried.', [
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
