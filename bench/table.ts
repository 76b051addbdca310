import type { Measurement, Row } from './measure.ts';
import type { Subject } from './subjects.ts';

const BYTES_PER_MIB = 1024 * 1024;

/**
 * The rows as a Markdown table, a line for each service that was measured.
 *
 * @param bases  the services that the others are compared with, a column each: CPU time and throughput, as multiples of the base's
 */
export function toMarkdown(rows: readonly Row[], bases: readonly Subject[]): string {
  const head = [
    ...['calls', 'service', 'decisions/s', 'CPU µs', 'of Redis', 'p50 ms', 'p99 ms', 'MiB', 'generator'],
    ...bases.map(({ name }) => `CPU, rate ÷ ${name}`),
  ];
  const lines = rows.flatMap((row) =>
    [...row.measured].map(([subject, measured]) => line(row, subject, measured, bases)),
  );
  return [head, head.map((_, at) => (at < 2 ? '---' : '---:')), ...lines]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');
}

function line(
  { shape, callsPerSecond, measured }: Row,
  subject: Subject,
  own: Measurement,
  bases: readonly Subject[],
): string[] {
  return [
    callsPerSecond === undefined ? shape.name : `${shape.name} of ${callsPerSecond}/s`,
    subject.name,
    own.callsPerSecond.toFixed(0),
    own.serviceUs.toFixed(1),
    own.redisUs?.toFixed(1) ?? '',
    own.p50Ms.toFixed(2),
    own.p99Ms.toFixed(2),
    (own.memoryBytes / BYTES_PER_MIB).toFixed(0),
    `${(own.generatorLoad * 100).toFixed(0)} %`,
    ...bases.map((base) => ratios(own, measured.get(base))),
  ];
}

const ratios = (own: Measurement, base: Measurement | undefined): string =>
  base && base !== own
    ? `${(own.serviceUs / base.serviceUs).toFixed(2)}, ${(own.callsPerSecond / base.callsPerSecond).toFixed(2)}`
    : '';
