import { Histogram } from '../../operate/observe/histogram.ts';
import {
  contentTypes,
  type Exposition,
  type Labels,
  toSeries,
  withExtra,
  writeLabels,
  writeMetric,
  writeRows,
} from '../../operate/observe/metric.ts';
import { ProcessProbe } from '../../operate/observe/process-metrics.ts';
import { referenceGauges, referenceSamples, statsdName } from '../../operate/observe/reference-names.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import { processRows, type ReportedFigures, responseTime } from '../../operate/observe/table.ts';

interface ReferenceMetricsOptions {
  /** Added as labels to every series. */
  readonly extraTags: ReadonlyMap<string, string>;
  /** Report response times in milliseconds, although the metric's name says seconds. */
  readonly responseTimeAsMilliseconds: boolean;
  figures(): ReportedFigures;
}

/** In seconds: Prometheus' default buckets. In milliseconds the same numbers, as in envoyproxy/ratelimit. */
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * The statistics with envoyproxy/ratelimit's Prometheus names and labels. Omits counters that are 0.
 *
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export function createReferenceMetrics(statistics: Statistics, options: ReferenceMetricsOptions) {
  const extra = [...new Map([...options.extraTags].map(([tag, value]) => [escapedName(tag), value] as const))];
  const times = new Histogram(BUCKETS);
  let probe: ProcessProbe | undefined;
  return {
    /** Records the duration of a gRPC call. */
    onCallFinished(method: string, elapsedMs: number): void {
      times.observe(options.responseTimeAsMilliseconds ? elapsedMs : elapsedMs / 1000, method);
    },
    render(): Exposition {
      probe ??= new ProcessProbe(); // a service that is not scraped needs none
      const source = { figures: options.figures(), probe };
      const rows = processRows.map((row) => [row, toSeries(row, row.read(source), extra)] as const);
      probe.scraped();
      const durations = { ...responseTime, name: responseTime.reference.prometheus };
      const gauges = [...referenceGauges(source.figures)].flatMap(([name, value]) => [
        ...writeMetric({ kind: 'gauge', name: escapedName(name) }, [[writeLabels(extra), value]]),
      ]);
      const others = writeRows([...rows, [durations, toSeries(durations, times.samples(), extra)]], 'text');
      const lines = [...writeCounters(statistics, extra), ...gauges, ...others];
      return { contentType: contentTypes.text, body: Buffer.from(lines.join('')) };
    },
  };
}

/** Turns a text into a metric or label name: invalid characters become `_`, as in envoyproxy/ratelimit. */
const escapedName = (text: string): string => text.replaceAll(/[^A-Za-z0-9_]/gu, '_').replace(/^(?=\d)/, '_');

/** Samples of the same series are added up, and counters that are 0 omitted. */
function* writeCounters(statistics: Statistics, extra: Labels): Iterable<string> {
  const metrics = new Map<string, Map<string, number>>();
  for (const sample of referenceSamples(statistics)) {
    if (sample.value === 0) continue;
    const name = sample.reference.prometheus ?? escapedName(statsdName(sample));
    const labels = writeLabels(withExtra(referenceLabels(sample), extra));
    const series = metrics.get(name) ?? new Map<string, number>();
    metrics.set(name, series.set(labels, (series.get(labels) ?? 0) + sample.value));
  }
  for (const [name, series] of metrics) yield* writeMetric({ kind: 'counter', name }, series);
}

/** The labels of a rule are its key up to the third dot, so that all rules below it are counted together. */
function referenceLabels({ reference: { label, values }, of }: Parameters<typeof statsdName>[0]): Labels {
  if (typeof of === 'object') {
    const levels = of.key.split('.', RULE_LABELS.length);
    return levels.map((level, at) => [RULE_LABELS[at] ?? '', level]);
  }
  return label === undefined || of === undefined ? [] : [[label, values?.[of] ?? of]];
}

const RULE_LABELS = ['domain', 'key1', 'key2'];
