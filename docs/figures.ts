import { readFileSync } from 'node:fs';
import { wrapped } from './wrap.ts';

const resultsOf = (name: string): string => readFileSync(new URL(`results/${name}.md`, import.meta.url), 'utf8');

/** The figures at the top of the README and of the site, from the tables of docs/results. */
export interface Figures {
  /** Calls that come one by one: the CPU time of the service and its Redis together. */
  readonly evenly: { readonly few: Comparison; readonly slow: Comparison; readonly fast: Comparison };
  /** With many keys, at full load and at an ordinary load: the same fixed rate for both. */
  readonly full: Load;
  readonly ordinary: Load & { readonly perSecond: number; readonly p99Ms: Comparison };
  readonly faults: number;
  readonly calls: number;
  /** Counting in Redis, with nothing to do. Pages that processes share count once. */
  readonly atRest: { readonly startMs: Comparison; readonly memoryMib: Comparison };
  /** What envoyproxy/ratelimit was built from. */
  readonly referenceVersion: string;
  /** The day of the main table, and what it was measured with. */
  readonly measuredOn: string;
  readonly machine: string;
}

/** CPU time of the service and of its Redis for a decision, and their sum. */
interface Load {
  readonly sum: Comparison;
  readonly cpu: Comparison;
  readonly ofRedis: Comparison;
}

/** The values for Weir and envoyproxy/ratelimit as in the table: µs of CPU unless the name has another unit. */
export interface Comparison {
  readonly weir: string;
  readonly reference: string;
}

/** @throws Error  a table lacks a row */
export function readFigures(): Figures {
  const bench = resultsOf('bench');
  const [calls, faults] = sumsOf(resultsOf('chaos'));
  const evenly = (perSecond: number): Comparison => compare(bench, new RegExp(`^Redis, ${perSecond} calls/s$`), 'sum');
  const load = (calls: RegExp): Load => ({
    sum: compare(bench, calls, 'sum'),
    cpu: compare(bench, calls, 'cpu'),
    ofRedis: compare(bench, calls, 'ofRedis'),
  });
  const atRest = (column: 2 | 4): Comparison => ({
    weir: cellsOf(bench, /^Weir, Redis$/)[column] ?? '',
    reference: cellsOf(bench, /^envoyproxy\/ratelimit, Redis$/, /^[\d.]+$/, /^\d+$/)[column] ?? '',
  });
  return {
    evenly: { few: evenly(500), slow: evenly(2_000), fast: evenly(10_000) },
    full: load(manyKeys),
    ordinary: {
      perSecond: Number(/(\d+)\/s$/.exec(cellsOf(bench, fixedRate)[0] ?? '')?.[1]),
      ...load(fixedRate),
      p99Ms: compare(bench, fixedRate, 'p99'),
    },
    faults,
    calls,
    atRest: { startMs: atRest(2), memoryMib: atRest(4) },
    referenceVersion: cellsOf(bench, /^envoyproxy\/ratelimit$/)[1] ?? '',
    measuredOn: cellsOf(bench, /^date$/)[1] ?? '',
    machine: cellsOf(bench, /^machine$/)[1] ?? '',
  };
}

const manyKeys = /^Redis, 100000 keys$/;
const fixedRate = /^Redis, 100000 keys, fixed rate/;

/** The columns of the table of `npm run bench`, after the calls and the service. */
const columns = { cpu: 3, ofRedis: 4, sum: 5, p99: 7 } as const;

function compare(page: string, calls: RegExp, column: keyof typeof columns): Comparison {
  const of = (service: RegExp): string => cellsOf(page, calls, service)[columns[column]] ?? '';
  return { weir: of(/^Weir \(h2\)$/), reference: of(/^envoyproxy\/ratelimit$/) };
}

/** The cells of the first row whose first cells match. */
function cellsOf(page: string, ...starts: readonly RegExp[]): readonly string[] {
  for (const line of page.split('\n')) {
    const cells = line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
    if (cells.length > starts.length && starts.every((start, at) => start.test(cells[at] ?? ''))) return cells;
  }
  throw new Error(`expected a row that begins with ${starts.join(', ')}`);
}

/** Calls and faults of all chaos runs, if every invariant held. */
function sumsOf(page: string): readonly [calls: number, faults: number] {
  const runs = [...page.matchAll(/: (\d+) calls, (\d+) faults: (.*)$/gm)];
  if (runs.length === 0 || runs.some(([, , , outcome]) => outcome !== 'every invariant held.'))
    throw new Error('expected chaos runs in which every invariant held');
  const sum = (group: 1 | 2): number => runs.reduce((total, run) => total + Number(run[group]), 0);
  return [sum(1), sum(2)];
}

export const inWords = (count: number): string => count.toLocaleString('en-US');

/** The factor by which Weir needs less, rounded down: `8`, or `3.9` below 5. */
export const timesLess = ({ weir, reference }: Comparison): number => {
  const factor = Number(reference) / Number(weir);
  return factor < 5 ? Math.floor(factor * 10) / 10 : Math.floor(factor);
};

const BEGIN = '<!-- figures: begin, written by `npm run docs` -->';
const END = '<!-- figures: end -->';

/** The README with the current figures. */
export function withFigures(readme: string): string {
  const [begin, end] = [readme.indexOf(BEGIN), readme.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`expected ${BEGIN} and ${END} in the README`);
  return `${readme.slice(0, begin + BEGIN.length)}\n\n${figuresBlock()}\n\n${readme.slice(end)}`;
}

function figuresBlock(): string {
  const { evenly, ordinary, full, atRest, referenceVersion, measuredOn, machine, faults } = readFigures();
  const cell = (value: string, other: string, unit: string): string =>
    Number(value) < Number(other) ? `**${value} ${unit}**` : `${value} ${unit}`;
  const row = (what: string, { weir, reference }: Comparison, unit: string): string =>
    `| ${what} | ${cell(weir, reference, unit)} | ${cell(reference, weir, unit)} |`;
  return [
    wrapped(
      `A decision, Redis included, costs **${timesLess(evenly.slow)} times less CPU time** at 2,000 calls/s (${timesLess(evenly.few)} at 500, ${timesLess(ordinary.sum)} at ${inWords(ordinary.perSecond)}, ${timesLess(full.sum)} at full load):`,
    ).trim(),
    '',
    '| on the same Redis, [measured](docs/results/bench.md) by `npm run bench` | Weir | envoyproxy/ratelimit |',
    '| --- | ---: | ---: |',
    row('500 calls/s, evenly spaced: CPU time of service and Redis for one', evenly.few, 'µs'),
    row('2,000 calls/s, evenly spaced: the same', evenly.slow, 'µs'),
    row('10,000 calls/s, evenly spaced: the same', evenly.fast, 'µs'),
    row(`${inWords(ordinary.perSecond)} decisions/s on 100,000 keys: CPU time of one`, ordinary.cpu, 'µs'),
    row('the same: CPU time of Redis', ordinary.ofRedis, 'µs'),
    row('the same: 99th percentile latency', ordinary.p99Ms, 'ms'),
    row('full load on 100,000 keys: CPU time of a decision', full.cpu, 'µs'),
    row('the same: CPU time of Redis', full.ofRedis, 'µs'),
    row('[at rest](docs/results/bench.md#at-rest): memory', atRest.memoryMib, 'MiB'),
    row('from start to the first answer', atRest.startMs, 'ms'),
    '',
    wrapped(
      `[Measured on ${measuredOn}](docs/results/bench.md): Weir of that day, envoyproxy/ratelimit ${referenceVersion}; ${machine}. In ${faults} injected faults no limit was exceeded by more than its documented bound ([\`npm run proof -- chaos\`](docs/results/chaos.md)).`,
    ).trim(),
  ].join('\n');
}
