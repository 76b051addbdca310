import { beginMetric, writeLabels, writeSeries } from '../observe/exposition.ts';
import type { AdminOptions } from './operations.ts';

/** Writes `weir_unmatched_total` for Prometheus, of all processes that run now. */
export async function unmatchedMetrics(ask: AdminOptions['ask']): Promise<string> {
  const sums = new Map<string, number>();
  for (const { reply } of await ask({ kind: 'unmatched' })) {
    for (const { domain, reason, count } of reply.report.counts) {
      const labels = writeLabels(Object.entries({ domain, reason }));
      sums.set(labels, (sums.get(labels) ?? 0) + count);
    }
  }
  const help = 'Descriptors that met no rule, by why: see /api/v1/unmatched.';
  return `${beginMetric('weir_unmatched_total', 'counter', help)}${Array.from(sums, ([labels, count]) => writeSeries('weir_unmatched_total', labels, count)).join('')}\n`;
}
