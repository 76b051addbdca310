import { median } from '../tables/figures.ts';

/**
 * CPU time per call, in microseconds: one number per round, at the same index in all three lists. The processes of a
 * launch are started for it and stopped after it.
 */
export interface Launch {
  readonly current: readonly number[];
  /** A second process of the same build as `current`. */
  readonly repeat: readonly number[];
  readonly other: readonly number[];
}

/** The cost of the current build, compared with another. */
export interface Comparison {
  /** Medians over all rounds. */
  readonly currentUs: number;
  readonly otherUs: number;
  /** CPU time of the current build ÷ CPU time of the other: the median over all rounds. Above 1, the current build costs more. */
  readonly ratio: number;
  /** How far the same median is from 1, as a fraction, when the build is compared with itself. */
  readonly spread: number;
  /** By how much the ratio may exceed 1: the spread, at least ALWAYS_ALLOWED. */
  readonly allowed: number;
  readonly verdict: 'no slower' | 'slower';
}

/** A build that costs 3 % more counts as no slower. */
export const ALWAYS_ALLOWED = 0.03;

/**
 * Compares rounds in pairs, since other work of the machine in a round affected all its processes.
 * Ratios are compared by their logarithms, so that a ratio and its inverse are equally far from 1.
 *
 * @throws  a round used no CPU time, or the lists of a launch differ in length
 */
export function compare(launches: readonly Launch[]): Comparison {
  for (const launch of launches) check(launch);
  const ratio = Math.exp(median(launches.flatMap(({ current, repeat, other }) => logRatios(current, repeat, other))));
  const spread = measureSpread(launches.map(({ current, repeat }) => logRatios(current, current, repeat)));
  const allowed = Math.max(ALWAYS_ALLOWED, spread);
  return {
    currentUs: median(launches.flatMap(({ current, repeat }) => [...current, ...repeat])),
    otherUs: median(launches.flatMap(({ other }) => other)),
    ratio,
    spread,
    allowed,
    verdict: ratio <= 1 + allowed ? 'no slower' : 'slower',
  };
}

/** Round by round, the logarithm of the ratio of two processes (their geometric mean) to a third one. */
const logRatios = (first: readonly number[], second: readonly number[], third: readonly number[]): readonly number[] =>
  first.map((us, round) => (Math.log(us) + logAt(second, round)) / 2 - logAt(third, round));

const logAt = (us: readonly number[], round: number): number => Math.log(us[round] ?? Number.NaN);

/**
 * The order of a launch's two processes is arbitrary, since they run the same build. The spread is the largest
 * deviation from 1 that the median over all rounds can have if the two are exchanged in any of the launches (a
 * randomization test).
 *
 * @param launches  the logarithms of the ratios of the two processes, round by round
 */
function measureSpread([first = [], ...others]: readonly (readonly number[])[]): number {
  const exchanges = others.reduce<readonly (readonly number[])[]>(
    (soFar, launch) =>
      soFar.flatMap((logs) => [
        [...logs, ...launch],
        [...logs, ...launch.map((log) => -log)],
      ]),
    [first],
  );
  return Math.expm1(Math.max(...exchanges.map((logs) => Math.abs(median(logs)))));
}

function check({ current, repeat, other }: Launch): void {
  if (repeat.length !== current.length || other.length !== current.length || current.length === 0) {
    throw new Error(
      `a launch must have as many rounds of each process, got ${[current, repeat, other].map((list) => list.length)}`,
    );
  }
  if (![...current, ...repeat, ...other].every((us) => us > 0)) {
    throw new Error('every round must use CPU time: raise --seconds');
  }
}
