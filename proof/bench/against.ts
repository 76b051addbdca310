import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { roundOrder } from '../tables/order.ts';
import type { Generator } from './generator/generator.ts';
import { type Measurement, type MeasureOptions, measureShape } from './measure.ts';
import type { Shape } from './shapes.ts';
import { type Subject, weirOn } from './subjects.ts';
import { ALWAYS_ALLOWED, type Comparison, compare, type Launch } from './verdict.ts';

/** A built Weir. */
export interface Checkout {
  readonly folder: string;
  readonly main: string;
  readonly version: string;
}

/**
 * The subjects of a comparison, which are the current build, the same again to measure its spread, and another build.
 */
interface Trio {
  readonly current: Subject;
  readonly repeat: Subject;
  readonly other: Subject;
}

/** The relative cost of two builds for a shape and transport. */
export interface ComparedRow {
  readonly shape: Shape;
  readonly transport: string;
  /** The offered rate; undefined for a closed loop. */
  readonly callsPerSecond: number | undefined;
  readonly service: Comparison;
  /** For the service and its Redis together; undefined if counters are in memory. */
  readonly withRedis: Comparison | undefined;
  readonly launches: readonly TrioOf<readonly Measurement[]>[];
}

type TrioOf<T> = { readonly [process in keyof Trio]: T };

/**
 * How often the processes are started, so that the variation between starts (memory layout, compiled code) becomes part
 * of the spread. Six launches start three processes in all six orders.
 */
export const LAUNCHES = 6;

/** The name in package.json, now and before 0.3. */
const NAMES: readonly unknown[] = ['weir-rls', 'weir'];

/** @throws Error if the folder has no built Weir */
export function checkoutAt(folder: string): Checkout {
  const main = resolve(folder, 'dist/main.js');
  const manifest = join(folder, 'package.json');
  if (!existsSync(main)) throw new Error(`--against must name a built checkout of Weir, but there is no ${main}`);
  if (!existsSync(manifest)) throw new Error(`--against must name a checkout of Weir, but there is no ${manifest}`);
  const { name, version } = JSON.parse(readFileSync(manifest, 'utf8'));
  if (!NAMES.includes(name)) throw new Error(`--against must name a checkout of Weir, but ${manifest} is of '${name}'`);
  return { folder: resolve(folder), main, version };
}

const trioOn = (transport: string, { main }: Checkout): Trio => ({
  current: { ...weirOn(transport), name: `this build (${transport})` },
  repeat: { ...weirOn(transport), name: `this build again (${transport})` },
  other: { ...weirOn(transport, main), name: `the other build (${transport})` },
});

/**
 * Compares two builds on a shape. Each launch starts all three processes in another order, and measures some rounds.
 *
 * @throws Error if a call failed or was answered wrongly
 */
export async function compareShape(
  shape: Shape,
  transport: string,
  other: Checkout,
  generator: Generator,
  options: MeasureOptions,
): Promise<ComparedRow> {
  const trio = trioOn(transport, other);
  const subjects = [trio.current, trio.repeat, trio.other];
  const launches: TrioOf<readonly Measurement[]>[] = [];
  let callsPerSecond: number | undefined;
  for (const [launch, share] of shares(options.rounds, LAUNCHES).entries()) {
    const ordered = roundOrder(launch, subjects.length).flatMap((at) => subjects[at] ?? []);
    const measured = await measureShape(shape, ordered, generator, { ...options, rounds: share, callsPerSecond });
    callsPerSecond = measured.callsPerSecond; // set by the first launch, used by the others
    const of = (subject: Subject): readonly Measurement[] => {
      const rounds = measured.rounds.get(subject);
      if (!rounds) throw new Error(`${subject.name} does not keep up with "${shape.name}"`);
      return rounds;
    };
    launches.push({ current: of(trio.current), repeat: of(trio.repeat), other: of(trio.other) });
  }
  const comparison = (usOf: (measurement: Measurement) => number) =>
    compare(launches.map((launch): Launch => mapTrio(launch, (measurements) => measurements.map(usOf))));
  return {
    shape,
    transport,
    callsPerSecond,
    service: comparison(({ serviceUs }) => serviceUs),
    withRedis: shape.store === 'redis' ? comparison(({ serviceUs, redisUs = 0 }) => serviceUs + redisUs) : undefined,
    launches,
  };
}

/** A row is slower if one of its comparisons is. */
const isSlower = ({ service, withRedis }: ComparedRow): boolean =>
  [service, withRedis].some((comparison) => comparison?.verdict === 'slower');

/** A summary of all rows, to print below their table, and the exit code. */
interface Conclusion {
  readonly text: string;
  readonly exitCode: 0 | 1;
}

export function conclude(rows: readonly ComparedRow[]): Conclusion {
  const slower = rows.filter(isSlower).map(({ shape, transport }) => `${shape.name} (${transport})`);
  const coarse = rows.filter((row) =>
    [row.service, row.withRedis].some((comparison) => comparison && comparison.spread > ALWAYS_ALLOWED),
  );
  const caution =
    `In ${coarse.length} of ${rows.length} rows this build differs from itself by more than ${ALWAYS_ALLOWED * 100} %: ` +
    'smaller differences cannot be seen there.\nLess other work on the machine, or more --rounds, makes the spread smaller.\n';
  const result = slower.length === 0 ? 'No row is slower.' : `Slower: ${slower.join('; ')}.`;
  return { text: `${coarse.length === 0 ? '' : caution}${result}`, exitCode: slower.length === 0 ? 0 : 1 };
}

/** Splits rounds into parts as evenly as possible; none is empty. */
const shares = (rounds: number, parts: number): readonly number[] =>
  Array.from(
    { length: parts },
    (_, at) => Math.floor(((at + 1) * rounds) / parts) - Math.floor((at * rounds) / parts),
  ).filter((share) => share > 0);

const mapTrio = <T, U>({ current, repeat, other }: TrioOf<T>, map: (value: T) => U): TrioOf<U> => ({
  current: map(current),
  repeat: map(repeat),
  other: map(other),
});
