/** Metrics in one of Prometheus' formats. */
export interface Exposition {
  readonly contentType: string;
  readonly body: Buffer;
}

/**
 * text         Prometheus' text format
 * openmetrics  its successor, for clients that accept it
 *
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/
 * @see https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
 */
export type ExpositionFormat = 'text' | 'openmetrics';

export const contentTypes: Readonly<Record<ExpositionFormat, string>> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
};

type Kind = 'counter' | 'gauge' | 'histogram';

/** A metric: a row of the table. */
export interface MetricRow extends RowOptions {
  readonly kind: Kind;
  /** On the debug port; undefined: not shown there. */
  readonly name: string | undefined;
  readonly help: string;
}

interface RowOptions {
  /** The last ones may be absent from a sample. */
  readonly labels?: readonly string[];
  /** Values of the only label that are counted from 0. */
  readonly known?: readonly string[];
  /** One series of a metric that has several rows. */
  readonly only?: readonly [label: string, value: string];
  /** How figures of two processes are added up; absent: they are summed. */
  readonly add?: 'max' | 'last';
  /** Converts the number for Prometheus. */
  readonly shown?: (value: number) => number;
  readonly reference?: ReferenceName;
}

/** The name of a statistic in envoyproxy/ratelimit. */
export interface ReferenceName {
  /** `<key>` stands for the name of a rule, another word in angle brackets for the value of the label. */
  readonly statsd: string;
  /** Absent: the name for StatsD, with `_` for characters that Prometheus does not allow. */
  readonly prometheus?: string;
  /** The label for Prometheus; absent: none. */
  readonly label?: string;
  /** The values of the label where they differ from Weir's. */
  readonly values?: Readonly<Record<string, string>>;
}

/** A row for a number that is counted under the key of the row. */
const counted =
  <K extends Kind>(kind: K) =>
  <const O extends RowOptions = object>(
    name: string | undefined,
    help: string,
    options?: O, // absent options are the default, an object without properties
  ) => ({ kind, name, help, ...(options as O) });

export const counter = counted('counter');
export const gauge = counted('gauge');

/** A row for what is read from a source when it is shown or reported. */
export interface ReadRow<S, R = Reading> extends MetricRow {
  readonly read: (source: S) => R;
}

/** Functions that make rows for a source. */
export const rowsFor = <S, R = Reading>() => {
  const ofKind =
    <K extends Kind>(kind: K) =>
    (name: string | undefined, help: string, read: (source: S) => R, options: RowOptions = {}) => ({
      kind,
      name,
      help,
      read,
      ...options,
    });
  /** Rows that are read under their keys. */
  const keyed = <K extends string>(rows: Readonly<Record<K, MetricRow>>, read: (source: S, key: K) => R) =>
    // the keys are those of the rows
    Object.entries<MetricRow>(rows).map(([key, row]) => ({ ...row, read: (source: S) => read(source, key as K) }));
  return { counter: ofKind('counter'), gauge: ofKind('gauge'), histogram: ofKind('histogram'), keyed };
};

/** A number, or samples by label; undefined: the source does not have it, and the metric is not shown. */
export type Reading = number | undefined | Iterable<MetricSample>;
export type MetricSample = readonly [labels: string | readonly string[], value: number | Distribution];

/** The observations of a histogram. */
export interface Distribution {
  /** Upper bounds of the buckets. */
  readonly bounds: readonly number[];
  /** Observations per bucket, not cumulative; the last bucket has no bound. */
  readonly counts: readonly number[];
  readonly sum: number;
}

/** Values by their labels as formatted by `writeLabels`. */
export type MetricSeries = Iterable<readonly [labels: string, value: number | Distribution]>;

/**
 * The series of a reading; samples with the same labels are added up.
 *
 * @param extra  labels of every series
 * @returns undefined  there is no reading
 */
export function toSeries(
  { labels = [], shown }: MetricRow,
  reading: Reading,
  extra: Labels = [],
): MetricSeries | undefined {
  if (reading === undefined) return undefined;
  const sums = new Map<string, number | Distribution>();
  for (const [values, sample] of typeof reading === 'number' ? [[[], reading] as const] : reading) {
    const all = typeof values === 'string' ? [values] : values;
    const own = all.map((value, at) => [labels[at] ?? '', value] as const);
    const text = writeLabels(withExtra(own, extra));
    const value = typeof sample === 'number' && shown ? shown(sample) : sample;
    const before = sums.get(text);
    sums.set(text, typeof value === 'number' && typeof before === 'number' ? before + value : value);
  }
  return sums;
}

export type Labels = readonly (readonly [name: string, value: string])[];

/** A series' own labels take precedence. */
export const withExtra = (labels: Labels, extra: Labels): Labels => [
  ...labels,
  ...extra.filter(([name]) => !labels.some(([own]) => own === name)),
];

/** What is written of a metric besides its series. */
interface Head {
  readonly kind: Kind;
  readonly name: string;
  readonly help?: string;
}

/** Metrics that have a name and series, line by line. */
export function* writeRows(
  rows: Iterable<readonly [row: MetricRow, series: MetricSeries | undefined]>,
  format: ExpositionFormat,
): Iterable<string> {
  for (const [{ kind, name, help }, series] of rows)
    if (name !== undefined && series) yield* writeMetric({ kind, name, help }, series, format);
}

/** A metric, line by line. */
export function* writeMetric(head: Head, series: MetricSeries, format: ExpositionFormat = 'text'): Iterable<string> {
  const { name } = head;
  yield writeHead(head, format);
  for (const [labels, value] of series)
    if (typeof value === 'number') yield `${name}${labels} ${value}\n`;
    else yield* writeDistribution(name, labels, value);
  if (format === 'text') yield '\n'; // OpenMetrics allows no blank line
}

/** In OpenMetrics a counter is named like its series, without `_total`. */
function writeHead({ kind, name, help }: Head, format: ExpositionFormat): string {
  const isOpenMetrics = format === 'openmetrics';
  const family = isOpenMetrics && kind === 'counter' ? name.replace(/_total$/, '') : name;
  const described = isOpenMetrics ? help?.replaceAll('"', '\\"') : help;
  return `${described === undefined ? '' : `# HELP ${family} ${described}\n`}# TYPE ${family} ${kind}\n`;
}

function* writeDistribution(name: string, labels: string, { bounds, counts, sum }: Distribution): Iterable<string> {
  let count = 0;
  for (const [at, here] of counts.entries()) {
    count += here;
    yield `${name}_bucket${withLabel(labels, 'le', String(bounds[at] ?? '+Inf'))} ${count}\n`;
  }
  yield `${name}_sum${labels} ${sum}\n`;
  yield `${name}_count${labels} ${count}\n`;
}

/** Adds a label to formatted ones. */
const withLabel = (labels: string, name: string, value: string): string =>
  `{${name}="${escapedValue(value)}"${labels === '' ? '}' : `,${labels.slice(1)}`}`;

/** `{domain="shop",rule="user"}`; empty without labels. */
export const writeLabels = (labels: Labels): string =>
  labels.length === 0 ? '' : `{${labels.map(([name, text]) => `${name}="${escapedValue(text)}"`).join(',')}}`;

/** Escapes a label value. */
export const escapedValue = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
