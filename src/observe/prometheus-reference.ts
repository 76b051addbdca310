import { collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import type { Exposition } from './prometheus.ts';
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

type Labels = readonly (readonly [name: string, value: string])[];
interface Sample {
  readonly metric: string;
  readonly labels: Labels;
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
      const counters = [...samplesOf(statistics)].filter(({ value }) => value > 0);
      const gauges = [...options.gauges()].map(([name, value]) => ({ metric: escapedName(name), labels: [], value }));
      const ours = [...exposition('counter', counters, extra), ...exposition('gauge', gauges, extra)];
      return { contentType: registry.contentType, body: `${ours.join('')}${await registry.metrics()}` };
    },
  };
}

function* samplesOf(statistics: Statistics): Iterable<Sample> {
  for (const counts of statistics.rules()) {
    const keys = counts.levels.map((level, at) => [`key${at + 1}`, level] as const);
    const labels: Labels = [['domain', counts.domain], ...keys];
    for (const [name, of] of ruleStatistics)
      yield { metric: `ratelimit_service_rate_limit_${name}`, labels, value: of(counts) };
  }
  for (const [domain, value] of statistics.unknownDomains)
    yield { metric: escapedName(`ratelimit_service_rate_limit_${domain}_domain_not_found`), labels: [], value };
  for (const [by, name] of failureNames) {
    const value = statistics.failures[by];
    yield { metric: 'ratelimit_service_should_rate_limit_error', labels: [['err_type', name]], value };
  }
  for (const [method, value] of statistics.calls)
    yield { metric: 'ratelimit_service_total_requests', labels: [['grpc_method', method]], value };
  yield { metric: 'ratelimit_service_config_load_success', labels: [], value: statistics.loads.success };
  yield { metric: 'ratelimit_service_config_load_error', labels: [], value: statistics.loads.error };
  yield { metric: 'ratelimit_service_global_shadow_mode', labels: [], value: statistics.sums.shadowed };
}

/** A text for each metric: its type, then its series; samples of one series are added up. */
function exposition(type: 'counter' | 'gauge', samples: readonly Sample[], extra: Labels): readonly string[] {
  const metrics = new Map<string, Map<string, number>>();
  for (const { metric, labels, value } of samples) {
    const series = metrics.get(metric) ?? new Map<string, number>();
    metrics.set(metric, series);
    const all = [...labels, ...extra.filter(([name]) => !labels.some(([own]) => own === name))];
    const written = all.map(([name, text]) => `${name}="${escapedValue(text)}"`).join(',');
    const shown = written === '' ? metric : `${metric}{${written}}`;
    series.set(shown, (series.get(shown) ?? 0) + value);
  }
  return [...metrics].map(([metric, series]) => {
    const lines = [...series].map(([shown, value]) => `${shown} ${value}\n`);
    return `# TYPE ${metric} ${type}\n${lines.join('')}\n`;
  });
}

/** Any text as a name: what a name cannot have is `_`, as there. */
const escapedName = (text: string): string => text.replaceAll(/[^A-Za-z0-9_]/gu, '_').replace(/^(?=\d)/, '_');

const escapedValue = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
