import { readFileSync } from 'node:fs';
import type { MetricRow } from '../src/operate/observe/metric.ts';
import {
  adaptRows,
  holdRows,
  partFigures,
  reservationRows,
  responseTime,
  ruleRows,
  serviceRows,
  sumRows,
  tallyRows,
} from '../src/operate/observe/table.ts';

type Cells = readonly string[];

/** docs/statistics.md with its tables, each between two comments. */
export function statisticsPage(): string {
  const page = readFileSync(new URL('statistics.md', import.meta.url), 'utf8');
  return [statsdTable, referenceTable, debugPortTable].reduce((text, table) => table(text), page);
}

const ofRules: readonly MetricRow[] = [ruleRows, holdRows, adaptRows, reservationRows].flatMap((rows) =>
  Object.values(rows),
);
const ofReference: readonly MetricRow[] = [ruleRows, tallyRows, sumRows, partFigures]
  .flatMap((rows): readonly MetricRow[] => Object.values(rows))
  .filter(({ reference }) => reference);

/** All figures are gauges in envoyproxy/ratelimit. */
const figures: ReadonlySet<MetricRow> = new Set(Object.values(partFigures));
const referenceKind = (row: MetricRow): string => (figures.has(row) ? 'gauge' : row.kind);

const statsdTable = (page: string): string =>
  withTable(page, 'statsd', [
    ['name', 'kind', 'counts'],
    ...ofReference.flatMap((row) => statsdNames(row).map((name) => [code(name), referenceKind(row), row.help])),
    [code(responseTime.reference.statsd), 'timer', `${responseTime.help} In whole milliseconds; not on \`/stats\`.`],
  ]);

const referenceTable = (page: string): string =>
  withTable(page, 'prometheus of envoyproxy/ratelimit', [
    ['metric', 'kind', 'labels'],
    ...withoutRepeats(ofReference.flatMap(referenceRows)),
    [code(responseTime.reference.prometheus), responseTime.kind, listed(responseTime.labels)],
  ]);

const debugPortTable = (page: string): string =>
  withTable(page, 'debug port', [
    ['metric', 'kind', 'labels', 'meaning'],
    ...withoutRepeats(
      ofRules.flatMap((row) => described(row, ['domain', 'rule', 'algorithm', ...(row.only ? [row.only[0]] : [])])),
    ),
    ...serviceRows.flatMap((row) => described(row, row.labels ?? [])),
  ]);

/** One name, or one for each known value of the label. */
function statsdNames({ reference, known }: MetricRow): readonly string[] {
  const { statsd = '', values } = reference ?? {};
  return known ? known.map((value) => statsd.replace(/<\w+>/, values?.[value] ?? value)) : [statsd];
}

function referenceRows(row: MetricRow): readonly Cells[] {
  const { prometheus, label } = row.reference ?? {};
  const labels = ofRules.includes(row) ? ['domain', 'key1', 'key2'] : label === undefined ? [] : [label];
  return statsdNames(row).map((name) => [
    code(prometheus ?? name.replaceAll(/[^\w<>]/g, '_')),
    referenceKind(row),
    listed(labels),
  ]);
}

const described = ({ name, kind, help }: MetricRow, labels: Cells): readonly Cells[] =>
  name === undefined ? [] : [[code(name), kind, listed(labels), help]];

const code = (text: string): string => `\`${text}\``;
const listed = (labels: Cells): string => labels.map(code).join(', ');

const withoutRepeats = (rows: readonly Cells[]): readonly Cells[] =>
  rows.filter(([name], at) => rows.findIndex(([other]) => other === name) === at);

function withTable(page: string, name: string, [head = [], ...rows]: readonly Cells[]): string {
  const [begin, end] = [`<!-- ${name}: begin, written by \`npm run docs\` -->`, `<!-- ${name}: end -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`expected ${begin} and ${end} in docs/statistics.md`);
  const lines = [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  return `${page.slice(0, from + begin.length)}\n\n${lines.join('\n')}\n\n${page.slice(to)}`;
}
