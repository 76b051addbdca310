/** Numbers in Prometheus' exposition format. */
export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

export type Labels = readonly (readonly [name: string, value: string])[];

/** The lines that begin a metric. @see https://prometheus.io/docs/instrumenting/exposition_formats/ */
export const beginMetric = (name: string, type: 'counter' | 'gauge', help?: string): string =>
  `${help === undefined ? '' : `# HELP ${name} ${help}\n`}# TYPE ${name} ${type}\n`;

/** The line of one series, with its labels as `writeLabels` makes them. */
export const writeSeries = (name: string, labels: string, value: number): string => `${name}${labels} ${value}\n`;

/** `{domain="shop",rule="user"}`; nothing where there is no label. */
export const writeLabels = (labels: Labels): string =>
  labels.length === 0 ? '' : `{${labels.map(([name, text]) => `${name}="${escapedValue(text)}"`).join(',')}}`;

/** Any text as the name of a metric or label: what a name cannot have is `_`, as in envoyproxy/ratelimit. */
export const escapedName = (text: string): string => text.replaceAll(/[^A-Za-z0-9_]/gu, '_').replace(/^(?=\d)/, '_');

/** Any text as the value of a label. */
export const escapedValue = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
