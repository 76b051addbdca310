import type { Limit } from './limits.ts';

/** What became of a call: it passed, it was refused, or nobody knows whether it took effect. */
export type Outcome = 'passed' | 'refused' | 'unknown';

/** A call of one counter. Times are milliseconds of the client's monotonic clock since the beginning of the history. */
export interface Call {
  /** Its line in the history, from 1. */
  readonly line: number;
  /** The server received it no earlier, */
  readonly start: number;
  /** and answered no later. Of a call without an answer: when the client gave up. */
  readonly end: number;
  /** Negative: it gives back. */
  readonly hits: number;
  readonly outcome: Outcome;
  /** What the answer says is left, or NaN. */
  readonly remaining: number;
  /** What the answer says about the time until the counter is reset, or NaN. */
  readonly resetMs: number;
  /** The id of a request in flight; empty for rates. */
  readonly holder: string;
}

/** Why no order, no clocks and no outcomes of unknown calls explain the answers. */
export interface Contradiction {
  readonly limit: string;
  readonly key: string;
  /** A sentence, with the smallest numbers that show it. */
  readonly why: string;
  /** The smallest part of the history that shows it. */
  readonly calls: readonly Call[];
}

/** Judges all calls of one counter, which are in the order in which they began. */
export type Judge = (calls: readonly Call[], limit: Limit, clocks: Clocks) => readonly Finding[];

/** A contradiction of one counter. */
export type Finding = Pick<Contradiction, 'why' | 'calls'>;

export interface Clocks {
  /** Wall clock time at the beginning of the history, in ms since 1970. */
  readonly epochMs: number;
  readonly skewMs: number;
  readonly lateMs: number;
}

/** By the server's clock, a call may have taken effect from here, */
export const earliest = ({ start }: Call, { skewMs }: Clocks): number => start - skewMs;

/** to here. */
export const latest = ({ end, outcome }: Call, { skewMs, lateMs }: Clocks): number =>
  end + skewMs + (outcome === 'unknown' ? lateMs : 0);

/** The call may have been counted. */
export const mayCount = ({ outcome }: Call, { countsRefused }: Limit): boolean =>
  outcome !== 'refused' || countsRefused;

export const hasPassed = ({ outcome }: Call): boolean => outcome === 'passed';

export const sumOf = (calls: readonly Call[]): number => calls.reduce((sum, { hits }) => sum + hits, 0);

/** The first calls whose hits exceed a number. */
export function enough(calls: readonly Call[], most: number): readonly Call[] {
  let sum = 0;
  return calls.filter(({ hits }) => {
    const isNeeded = sum <= most;
    sum += hits;
    return isNeeded;
  });
}

export const times = (ms: number): string => `${(ms / 1_000).toFixed(6)} s`;
