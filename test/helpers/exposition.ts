/** A metric of an exposition: its type, and its samples by series, with labels in the order of the text. */
export interface ParsedMetric {
  readonly type: string;
  readonly samples: ReadonlyMap<string, number>;
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const LABEL = String.raw`[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"`;
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(${LABEL}(?:,${LABEL})*)?\\})? (\\S+)$`);
const SUFFIXES: Readonly<Record<string, readonly string[]>> = {
  histogram: ['_bucket', '_sum', '_count'],
  summary: ['', '_sum', '_count'],
};

/**
 * Parses Prometheus' text format strictly: each metric once, with its type before its samples, each series once, no
 * duplicate label.
 *
 * @throws Error  naming the invalid line
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export function parseExposition(text: string): ReadonlyMap<string, ParsedMetric> {
  if (!text.endsWith('\n')) throw new Error('the last line must end with a line feed');
  const metrics = new Map<string, { type: string; samples: Map<string, number> }>();
  let current = '';
  for (const line of text.split('\n')) {
    const wrong = (why: string) => new Error(`${why}: ${line}`);
    if (line === '' || /^# HELP \S+ /.test(line)) continue;
    const [, typed, type] = new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram|summary|untyped)$`).exec(line) ?? [];
    if (typed !== undefined && type !== undefined) {
      if (metrics.has(typed)) throw wrong('a metric may come only once');
      metrics.set(typed, { type, samples: new Map() });
      current = typed;
      continue;
    }
    const [, name = '', labels = '', value = ''] = SAMPLE.exec(line) ?? [];
    const metric = metrics.get(current);
    if (name === '' || !metric) throw wrong('this is no sample of a metric');
    if (!(SUFFIXES[metric.type] ?? ['']).some((suffix) => name === `${current}${suffix}`))
      throw wrong(`it belongs elsewhere than ${current}`);
    const names = Array.from(labels.matchAll(new RegExp(LABEL, 'g')), ([label]) => label.split('=')[0]);
    if (new Set(names).size < names.length) throw wrong('a label may come only once');
    const series = labels === '' ? name : `${name}{${labels}}`;
    if (metric.samples.has(series)) throw wrong('a series may come only once');
    if (!/^[+-]?(\d+(\.\d+)?(e[+-]?\d+)?|Inf)$|^Na[nN]$/.test(value)) throw wrong('this is no number');
    metric.samples.set(series, Number(value));
  }
  return metrics;
}
