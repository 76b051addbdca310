/** Metrics in Prometheus' exposition format. */
export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

export type Labels = readonly (readonly [name: string, value: string])[];

/** The HELP and TYPE lines of a metric. @see https://prometheus.io/docs/instrumenting/exposition_formats/ */
export const beginMetric = (name: string, type: 'counter' | 'gauge', help?: string): string =>
  `${help === undefined ? '' : `# HELP ${name} ${help}\n`}# TYPE ${name} ${type}\n`;

/** The line of one series; `labels` as formatted by `writeLabels`. */
export const writeSeries = (name: string, labels: string, value: number): string => `${name}${labels} ${value}\n`;

/** `{domain="shop",rule="user"}`; empty without labels. */
export const writeLabels = (labels: Labels): string =>
  labels.length === 0 ? '' : `{${labels.map(([name, text]) => `${name}="${escapedValue(text)}"`).join(',')}}`;

/** Turns a text into a metric or label name: invalid characters become `_`, as in envoyproxy/ratelimit. */
export const escapedName = (text: string): string => text.replaceAll(/[^A-Za-z0-9_]/gu, '_').replace(/^(?=\d)/, '_');

/** Escapes a label value. */
export const escapedValue = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
