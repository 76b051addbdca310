import { MIB } from '../tables/figures.ts';
import { table } from '../tables/table.ts';
import type { ComparedRow } from './against.ts';
import type { Measurement, Row } from './measure.ts';
import type { Shape } from './shapes.ts';
import type { Subject } from './subjects.ts';
import type { Comparison } from './verdict.ts';

const NOT_MEASURED = 'not measured';

/**
 * The rows as a Markdown table, with a line for each measured service, and for each service whose program is missing.
 *
 * @param bases    services to compare with, a column each: CPU time and throughput as multiples of the base's
 * @param missing  services whose programs are missing
 */
export function toMarkdown(rows: readonly Row[], bases: readonly Subject[], missing: readonly Subject[] = []): string {
  const head = [
    ...['calls', 'service', 'decisions/s', 'CPU µs', 'of Redis', 'sum', 'p50 ms', 'p99 ms', 'MiB', 'generator'],
    ...bases.map(({ name }) => `CPU, sum, rate ÷ ${name}`),
  ];
  const lines = rows.flatMap((row) => [
    ...[...row.measured].map(([subject, measured]) => line(row, subject, measured, bases)),
    ...missing
      .filter((subject) => subject.serves(row.shape))
      .map(({ name }) => [rowName(row), name, ...head.slice(2).map(() => NOT_MEASURED)]),
  ]);
  return table(head, 2, lines);
}

/** A comparison of two builds as a Markdown table: a line for the service, and one for the service with its Redis. */
export function comparisonsToMarkdown(rows: readonly ComparedRow[]): string {
  const head = [
    ...['calls', 'transport', 'CPU of'],
    ...['this build, µs', 'other build, µs', 'ratio', 'spread', 'allowed', 'verdict'],
  ];
  const lines = rows.flatMap((row) => [
    comparisonLine(row, 'service', row.service),
    ...(row.withRedis ? [comparisonLine(row, 'service and Redis', row.withRedis)] : []),
  ]);
  return table(head, 3, lines);
}

const comparisonLine = (row: ComparedRow, of: string, comparison: Comparison): string[] => [
  ...[rowName(row), row.transport, of],
  ...[comparison.currentUs, comparison.otherUs].map((us) => us.toFixed(2)),
  comparison.ratio.toFixed(3),
  ...[comparison.spread, comparison.allowed].map((fraction) => `${(fraction * 100).toFixed(1)} %`),
  comparison.verdict,
];

const rowName = ({ shape, callsPerSecond }: { shape: Shape; callsPerSecond: number | undefined }): string =>
  callsPerSecond === undefined || shape.pace === callsPerSecond ? shape.name : `${shape.name} of ${callsPerSecond}/s`;

function line(row: Row, subject: Subject, own: Measurement, bases: readonly Subject[]): string[] {
  return [
    rowName(row),
    subject.name,
    own.callsPerSecond.toFixed(0),
    own.serviceUs.toFixed(1),
    own.redisUs?.toFixed(1) ?? '',
    sumOf(own).toFixed(1),
    own.p50Ms.toFixed(2),
    own.p99Ms.toFixed(2),
    (own.memoryBytes / MIB).toFixed(0),
    `${(own.generatorLoad * 100).toFixed(0)} %`,
    ...bases.map((base) => ratios(own, row.measured.get(base))),
  ];
}

/** CPU time per call of the service and its Redis. */
const sumOf = ({ serviceUs, redisUs = 0 }: Measurement): number => serviceUs + redisUs;

const ratios = (own: Measurement, base: Measurement | undefined): string =>
  base && base !== own
    ? [own.serviceUs / base.serviceUs, sumOf(own) / sumOf(base), own.callsPerSecond / base.callsPerSecond]
        .map((ratio) => ratio.toFixed(2))
        .join(', ')
    : '';
