import { beginMetric, betweenMetrics, type ExpositionFormat, writeLabels, writeSeries } from '../observe/exposition.ts';
import type { AdminOptions } from './operations.ts';

/** Writes `weir_unmatched_total` for Prometheus, of all processes that run now. */
export async function unmatchedMetrics(ask: AdminOptions['ask'], format: ExpositionFormat): Promise<string> {
  const sums = new Map<string, number>();
  for (const { reply } of await ask({ kind: 'unmatched' })) {
    for (const { domain, reason, count } of reply.report.counts) {
      const labels = writeLabels(Object.entries({ domain, reason }));
      sums.set(labels, (sums.get(labels) ?? 0) + count);
    }
  }
  const help = 'Descriptors that met no rule, by why: see /api/v1/unmatched.';
  const name = 'weir_unmatched_total';
  const lines = Array.from(sums, ([labels, count]) => writeSeries(name, labels, count)).join('');
  return `${beginMetric(name, 'counter', help, format)}${lines}${betweenMetrics(format)}`;
}
