import type { Overrides } from '../../engine/decide/overrides.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { beginMetric, betweenMetrics, type ExpositionFormat, writeLabels, writeSeries } from '../observe/exposition.ts';
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
