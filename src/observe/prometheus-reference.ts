import { collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import { joinInSlices } from '../slices.ts';
import { beginMetric, type Exposition, escapedName, type Labels, writeLabels, writeSeries } from './exposition.ts';
import { failureNames, ruleStatistics } from './reference-names.ts';
import type { Statistics } from './stats.ts';

export interface ReferenceMetricsOptions {
  /** Labels of every series. */
  readonly extraTags: ReadonlyMap<string, string>;
  /** Response times are milliseconds, though the name says seconds. */
  readonly responseTimeAsMilliseconds: boolean;
  /** By their names in StatsD. */
  gauges(): ReadonlyMap<string, number>;
}

/** The statistics under the names and labels that envoyproxy/ratelimit has for Prometheus. */
export interface ReferenceMetrics {
  render(): Promise<Exposition>;
  /** One call of gRPC, which took so long. */
  called(method: string, elapsedMs: number): void;
}

interface Sample {
  readonly metric: string;
  /** As they are written. */
  readonly labels: string;
  readonly value: number;
}

/** Its buckets, in seconds: Prometheus' own default. In milliseconds they are the same numbers, as there. */
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * Renders counters that are 0 not at all, and every level of a rule as a label of its own, `key1`, `key2` and so on, whatever its
 * name. @see https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export function createReferenceMetrics(statistics: Statistics, options: ReferenceMetricsOptions): ReferenceMetrics {
  const extra = [...new Map([...options.extraTags].map(([tag, value]) => [escapedName(tag), value] as const))];
  const registry = new Registry();
  registry.setDefaultLabels(Object.fromEntries(extra));
  collectDefaultMetrics({ register: registry });
  const responseTime = new Histogram({
    name: 'ratelimit_service_response_time_seconds',
    help: 'Time that calls of gRPC took.',
    labelNames: ['grpc_method'],
    buckets: BUCKETS,
    registers: [registry],
  });
  return {
    called(method, elapsedMs) {
      const value = options.responseTimeAsMilliseconds ? elapsedMs : elapsedMs / 1000;
      responseTime.observe({ grpc_method: method }, value);
    },
    async render() {
      const counters = writeMetrics('counter', samplesOf(statistics, extra));
      const gauges = Array.from(options.gauges(), ([name, value]) => sampleOf(escapedName(name), [], extra, value));
      const ours = await joinInSlices(counters);
      const others = [...writeMetrics('gauge', gauges), await registry.metrics()];
      return { contentType: registry.contentType, body: `${ours}${others.join('')}` };
    },
  };
}

/** What has been counted. Which names there are is settled at the first sample. */
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

const sampleOf = (metric: string, labels: Labels, extra: Labels, value: number): Sample => ({
  metric,
  labels: writeLabels(withExtra(labels, extra)),
  value,
});

/** A label of a series' own wins. */
const withExtra = (labels: Labels, extra: Labels): Labels => [
  ...labels,
  ...extra.filter(([name]) => !labels.some(([own]) => own === name)),
];

/**
 * The metrics of the samples, each with its type, then its series; samples of one series are added up, and counters that are 0 left out. An empty
 * text is a step of the work without a line.
 */
function* writeMetrics(type: 'counter' | 'gauge', samples: Iterable<Sample>): Iterable<string> {
  const metrics = new Map<string, Map<string, number>>();
  for (const { metric, labels, value } of samples) {
    yield '';
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
