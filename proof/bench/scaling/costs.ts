import { readFileSync } from 'node:fs';

/** Measured costs, in µs of processor time unless the name has another unit. */
export interface Costs {
  /** Weir's cost of a decision, with many keys, many calls on each connection, and large batches. */
  readonly weirUs: number;
  /** Weir's cost of a refusal from the deny cache. */
  readonly weirRefusalUs: number;
  /** Weir's cost of a decision without Redis, such as from a lease. */
  readonly weirLocalUs: number;
  /** Weir's additional cost of a call that arrives alone in a read of its connection. */
  readonly weirReadUs: number;
  /** Weir's additional cost of each call to Redis. */
  readonly weirCallUs: number;
  /** Redis' cost of each call, regardless of its number of counters. */
  readonly redisCallUs: number;
  /** Redis' cost of each counter in a call. */
  readonly redisCounterUs: number;
  readonly redisBytesPerCounter: number;
}

/** A row of docs/results/sharing.md. */
export interface LeaseRow {
  readonly instances: number;
  readonly algorithm: string;
  readonly consistency: string;
  readonly decisions: number;
  readonly callsPerDecision: number;
}

const BENCH = 'results/bench.md';
const LEASES = 'results/sharing.md';

/** Reads the costs from tables in docs/. @throws Error  a table lacks a row */
export function measuredCosts(): Costs {
  const of = (calls: string, service = 'Weir (h2)') => parseCost(findRow(BENCH, calls, service));
  const hotKey = of('Redis, one hot key');
  const manyKeys = of('Redis, 100000 keys');
  const [withBatches, withoutBatches] = leverRows();
  return {
    weirUs: manyKeys.weirUs,
    weirRefusalUs: of('Redis, a key over its limit, deny cache').weirUs,
    weirLocalUs: of('memory, 100000 keys').weirUs,
    weirReadUs: round(of('Redis, 64 connections of one call').weirUs - hotKey.weirUs),
    weirCallUs: round(withoutBatches.weirUs - withBatches.weirUs),
    redisCallUs: round(withoutBatches.redisUs - withBatches.redisUs),
    redisCounterUs: manyKeys.redisUs,
    redisBytesPerCounter: bytesPerCounter(),
  };
}

/** The row with a fixed rate, which the model is compared with. */
export const fixedRateRow = (): Pair => parseCost(findRow(BENCH, /^Redis, 100000 keys, fixed rate/, 'Weir (h2)'));

/** All rows of docs/results/sharing.md. */
export function measuredLeases(): readonly LeaseRow[] {
  return tableRows(LEASES).flatMap(([instances, algorithm, consistency, decisions, calls]) =>
    consistency === 'strict' || consistency === 'leased'
      ? [
          {
            instances: Number(instances),
            algorithm: algorithm?.replaceAll('`', '') ?? '',
            consistency,
            decisions: Number(decisions),
            callsPerDecision: Number(calls),
          },
        ]
      : [],
  );
}

interface Pair {
  readonly weirUs: number;
  readonly redisUs: number;
}

/** Reads a row of the tables of `npm run bench`. */
const parseCost = (cells: readonly string[]): Pair => ({ weirUs: Number(cells[3]), redisUs: Number(cells[4]) });

/** The rows for one hot key with and without batching, from the same run. */
function leverRows(): readonly [withBatches: Pair, withoutBatches: Pair] {
  const rows = tableRows(BENCH).filter(([calls]) => calls === 'Redis, one hot key');
  const without = rows.findIndex(([, service]) => service === 'without batching');
  const [before, row] = [rows[without - 1], rows[without]];
  if (!before || !row) throw new Error(`expected a row 'without batching' in docs/${BENCH}`);
  return [parseCost(before), parseCost(row)];
}

/** The size of a fixed window's counter in Redis. */
function bytesPerCounter(): number {
  const [, bytes] = /^\| bytes a counter \| \d+ in memory, (\d+) in Redis \|$/m.exec(page('algorithms.md')) ?? [];
  if (bytes === undefined) throw new Error('expected the bytes of a counter in docs/algorithms.md');
  return Number(bytes);
}

function findRow(name: string, calls: string | RegExp, service: string): readonly string[] {
  const isRow = (cell: string): boolean => (typeof calls === 'string' ? cell === calls : calls.test(cell));
  const found = tableRows(name).find(([first = '', second]) => isRow(first) && second === service);
  if (!found) throw new Error(`expected a row ${calls} of ${service} in docs/${name}`);
  return found;
}

const tableRows = (name: string): readonly (readonly string[])[] =>
  page(name)
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );

const page = (name: string): string => readFileSync(new URL(`../../../docs/${name}`, import.meta.url), 'utf8');

/** Rounds to the precision of the tables. */
const round = (us: number): number => Math.round(us * 10) / 10;
