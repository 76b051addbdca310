import { collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import { beginMetric, type Exposition, type Labels, writeLabels, writeSeries } from './exposition.ts';
import { failureNames, ruleStatistics } from './reference-names.ts';
import type { Statistics } from './stats.ts';

interface ReferenceMetricsOptions {
  /** Added as labels to every series. */
  readonly extraTags: ReadonlyMap<string, string>;
  /** Report response times in milliseconds, although the metric's name says seconds. */
  readonly responseTimeAsMilliseconds: boolean;
  /** By their StatsD names. */
  gauges(): ReadonlyMap<string, number>;
}

/** The statistics with envoyproxy/ratelimit's Prometheus names and labels. */
interface ReferenceMetrics {
  render(): Promise<Exposition>;
  /** Records the duration of a gRPC call. */
  onCallFinished(method: string, elapsedMs: number): void;
}

interface Sample {
  readonly metric: string;
  /** As formatted by `writeLabels`. */
  readonly labels: string;
  readonly value: number;
}

/** In seconds: Prometheus' default buckets. In milliseconds the same numbers, as in envoyproxy/ratelimit. */
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * Omits counters that are 0, and renders each level of a rule as a label, `key1`, `key2` and so on.
 *
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export function createReferenceMetrics(statistics: Statistics, options: ReferenceMetricsOptions): ReferenceMetrics {
  const extra = [...new Map([...options.extraTags].map(([tag, value]) => [escapedName(tag), value] as const))];
  const registry = new Registry();
  registry.setDefaultLabels(Object.fromEntries(extra));
  collectDefaultMetrics({ register: registry });
  const responseTime = new Histogram({
    name: 'ratelimit_service_response_time_seconds',
    help: 'Duration of gRPC calls.',
    labelNames: ['grpc_method'],
    buckets: BUCKETS,
    registers: [registry],
  });
  return {
    onCallFinished(method, elapsedMs) {
      const value = options.responseTimeAsMilliseconds ? elapsedMs : elapsedMs / 1000;
      responseTime.observe({ grpc_method: method }, value);
    },
    async render() {
      const counters = writeMetrics('counter', samplesOf(statistics, extra));
      const gauges = Array.from(options.gauges(), ([name, value]) => sampleOf(escapedName(name), [], extra, value));
      const lines = [...counters, ...writeMetrics('gauge', gauges), await registry.metrics()];
      return { contentType: registry.contentType, body: Buffer.from(lines.join('')) };
    },
  };
}

/** All counters. */
function* samplesOf(statistics: Statistics, extra: Labels): Iterable<Sample> {
  const domains = [...statistics.unknownDomains];
  for (const counts of statistics.rules()) {
    const keys = counts.levels.map((level, at) => [`key${at + 1}`, level] as const);
    const labels = writeLabels(withExtra([['domain', counts.domain], ...keys], extra));
    for (const [name, of] of ruleStatistics)
      yield { metric: `ratelimit_service_rate_limit_${name}`, labels, value: of(counts) };
  }
  const counter = (metric: string, labels: Labels, value: number): Sample =>
    sampleOf(`ratelimit_service_${metric}`, labels, extra, value);
  for (const [domain, value] of domains)
    yield counter(`${escapedName(`rate_limit_${domain}`)}_domain_not_found`, [], value);
  for (const [by, name] of failureNames)
    yield counter('should_rate_limit_error', [['err_type', name]], statistics.failures[by]);
  for (const [method, value] of statistics.calls) yield counter('total_requests', [['grpc_method', method]], value);
  yield counter('config_load_success', [], statistics.loads.success);
  yield counter('config_load_error', [], statistics.loads.error);
  yield counter('global_shadow_mode', [], statistics.sums.shadowed);
}

/** Turns a text into a metric or label name: invalid characters become `_`, as in envoyproxy/ratelimit. */
const escapedName = (text: string): string => text.replaceAll(/[^A-Za-z0-9_]/gu, '_').replace(/^(?=\d)/, '_');

const sampleOf = (metric: string, labels: Labels, extra: Labels, value: number): Sample => ({
  metric,
  labels: writeLabels(withExtra(labels, extra)),
  value,
});

/** A series' own labels take precedence. */
const withExtra = (labels: Labels, extra: Labels): Labels => [
  ...labels,
  ...extra.filter(([name]) => !labels.some(([own]) => own === name)),
];

/** The lines of the metrics; samples of the same series are added up, and counters that are 0 omitted. */
function* writeMetrics(type: 'counter' | 'gauge', samples: Iterable<Sample>): Iterable<string> {
  const metrics = new Map<string, Map<string, number>>();
  for (const { metric, labels, value } of samples) {
    if (type === 'counter' && value === 0) continue;
    const series = metrics.get(metric) ?? new Map<string, number>();
    metrics.set(metric, series.set(labels, (series.get(labels) ?? 0) + value));
  }
  for (const [metric, series] of metrics) {
    yield beginMetric(metric, type);
    for (const [labels, value] of series) yield writeSeries(metric, labels, value);
    yield '\n';
  }
}
