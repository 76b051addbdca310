import { namedAlgorithm } from '../../engine/holds/limits.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { Histogram } from './histogram.ts';
import {
  contentTypes,
  type Exposition,
  type ExpositionFormat,
  type MetricRow,
  type MetricSeries,
  toSeries,
  writeLabels,
  writeMetric,
  writeRows,
} from './metric.ts';
import { ProcessProbe } from './process-metrics.ts';
import { type Cells, type RuleCounts, readCell } from './rule-counts.ts';
import type { Statistics } from './stats.ts';
import {
  adaptRows,
  holdRows,
  type InstanceFacts,
  processRows,
  reservationRows,
  ruleRows,
  serviceRows,
} from './table.ts';

/** The metrics of this instance for Prometheus. */
export interface Metrics {
  render(facts: InstanceFacts, format?: ExpositionFormat): Exposition;
  /** Records a call of a method such as `ShouldRateLimit`: its gRPC status (0 is OK), and its duration. */
  onCallFinished(method: string, grpcStatus: number, elapsedMs: number): void;
  /** Durations of all calls so far. */
  durations(): DurationTotals;
}

/** Calls per bucket, not cumulative; the last bucket has no bound. */
export interface DurationTotals {
  readonly counts: readonly number[];
  readonly boundsMs: readonly number[];
}

/** Upper bounds of the buckets of durations, in seconds. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1];

export function createMetrics(statistics: Statistics): Metrics {
  const durations = new Histogram(BUCKETS);
  let probe: ProcessProbe | undefined;
  return {
    render(facts, format = 'text') {
      probe ??= new ProcessProbe(); // a service that is not scraped needs none
      const page = { ...facts, statistics, durations, probe };
      const rules = labelledRules(statistics, facts.rules);
      const others = [...serviceRows, ...processRows].map((row) => [row, toSeries(row, row.read(page))] as const);
      probe.scraped();
      const end = format === 'openmetrics' ? ['# EOF\n'] : [];
      const lines = [...writeRules(rules, format), ...writeRows(others, format), ...end];
      return { contentType: contentTypes[format], body: Buffer.from(lines.join('')) };
    },
    onCallFinished: (method, status, elapsedMs) => durations.observe(elapsedMs / 1_000, method, status),
    durations() {
      const all = durations.samples().flatMap(([, value]) => (typeof value === 'number' ? [] : [value.counts]));
      const counts = [...BUCKETS, 0].map((_, at) => all.reduce((sum, one) => sum + (one[at] ?? 0), 0));
      return { counts, boundsMs: BUCKETS.map((bound) => bound * 1_000) };
    },
  };
}

/** The counts of rules by their labels; undefined: the rule was not hit yet. */
type RuleSeries = ReadonlyMap<string, RuleCounts | undefined>;

/** The most rules listed with zeros before they are hit: scrapers limit the size of a page. */
const MAX_ZERO_RULES = 10_000;

function labelledRules(statistics: Statistics, tree: RuleTree | undefined): RuleSeries {
  const series = new Map<string, RuleCounts | undefined>();
  const writeRuleLabels = (domain: string, rule: string, algorithm: string): string =>
    writeLabels(Object.entries({ domain, rule, algorithm }));
  for (const counts of statistics.rules())
    series.set(writeRuleLabels(counts.domain, counts.rule, counts.algorithm), counts);
  const rules = tree && tree.rules.length <= MAX_ZERO_RULES ? tree.rules : [];
  for (const { domain, levels, named, limits } of rules) {
    if (named !== 'by_rule') continue; // its names depend on requests
    for (const { limit } of limits) {
      const labels = writeRuleLabels(domain, levels.join('.'), namedAlgorithm(limit));
      if (!series.has(labels)) series.set(labels, undefined);
    }
  }
  return series;
}

function* writeRules(rules: RuleSeries, format: ExpositionFormat): Iterable<string> {
  const some = <G extends 'holds' | 'reservations' | 'adapted'>(group: G) =>
    [...rules].flatMap(([labels, counts]) => (counts?.[group] ? [[labels, counts[group]] as const] : []));
  const [holds, reservations, adapted] = [some('holds'), some('reservations'), some('adapted')];
  yield* writeCells(ruleRows, rules, format);
  if (holds.length > 0) yield* writeCells(holdRows, holds, format);
  if (reservations.length > 0) yield* writeCells(reservationRows, reservations, format);
  if (adapted.length > 0) yield* writeCells(adaptRows, adapted, format);
}

/** Metrics of rules. */
function* writeCells<R extends Readonly<Record<string, MetricRow>>>(
  table: R,
  rules: Iterable<readonly [labels: string, cells: Cells<R> | undefined]>,
  format: ExpositionFormat,
): Iterable<string> {
  const rows = Object.entries<MetricRow>(table);
  for (const [at, [, { kind, name, help }]] of rows.entries()) {
    const isWritten = rows.findIndex(([, row]) => row.name === name) < at;
    const family = rows.filter(([, row]) => row.name === name);
    if (name !== undefined && !isWritten) yield* writeMetric({ kind, name, help }, cellSeries(family, rules), format);
  }
}

function* cellSeries<R>(
  family: readonly (readonly [key: string, row: MetricRow])[],
  rules: Iterable<readonly [labels: string, cells: Cells<R> | undefined]>,
): MetricSeries {
  for (const [key, { kind, only, shown = (value: number) => value }] of family)
    for (const [labels, cells] of rules) {
      const cell = cells ? cells[key as keyof R] : kind === 'counter' ? 0 : undefined; // it is a key of that table
      const own = only ? `${labels.slice(0, -1)},${writeLabels([only]).slice(1)}` : labels;
      if (cell !== undefined) yield [own, shown(readCell(cell))];
    }
}
