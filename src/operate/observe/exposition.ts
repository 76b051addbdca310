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

export type Labels = readonly (readonly [name: string, value: string])[];

/** The HELP and TYPE lines of a metric. In OpenMetrics a counter is named like its series, without `_total`. */
export function beginMetric(
  name: string,
  type: 'counter' | 'gauge',
  help?: string,
  format: ExpositionFormat = 'text',
): string {
  const family = format === 'openmetrics' && type === 'counter' ? name.replace(/_total$/, '') : name;
  const described = format === 'openmetrics' ? help?.replaceAll('"', '\\"') : help;
  return `${described === undefined ? '' : `# HELP ${family} ${described}\n`}# TYPE ${family} ${type}\n`;
}

/** The separator of metrics: OpenMetrics allows no blank line. */
export const betweenMetrics = (format: ExpositionFormat): string => (format === 'text' ? '\n' : '');

/** Converts metrics in the text format, whose counters must end with `_total`, to OpenMetrics. */
export function toOpenMetrics(text: string): string {
  const counters = new Set(Array.from(text.matchAll(/^# TYPE (\S+) counter$/gm), ([, name = '']) => name));
  const lines = text.split('\n').flatMap((line) => {
    if (line === '') return [];
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (keyword === undefined) return [line];
    const family = counters.has(name) ? name.replace(/_total$/, '') : name;
    return [`# ${keyword} ${family} ${keyword === 'HELP' ? rest.replaceAll('"', '\\"') : rest}`];
  });
  return lines.map((line) => `${line}\n`).join('');
}

/** The line of one series; `labels` as formatted by `writeLabels`. */
export const writeSeries = (name: string, labels: string, value: number): string => `${name}${labels} ${value}\n`;

/** `{domain="shop",rule="user"}`; empty without labels. */
export const writeLabels = (labels: Labels): string =>
  labels.length === 0 ? '' : `{${labels.map(([name, text]) => `${name}="${escapedValue(text)}"`).join(',')}}`;

/** Escapes a label value. */
export const escapedValue = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
