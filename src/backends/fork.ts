import type { State } from '../algorithms/limit.ts';
import type { Backend, Fork, Operation, RunOptions, Unavailable } from './backend.ts';
import type { CounterKey } from './key.ts';
import { createMemoryBackend } from './memory/backend.ts';
import { scatter } from './scatter.ts';

/** Counters as they were at one moment. */
export interface Snapshot {
  /** The backend's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  readonly states: ReadonlyMap<CounterKey, State>;
  /** Why counters could not be read. */
  readonly failures: ReadonlyMap<CounterKey, string>;
}

/** How the copied backend runs operations. */
export interface ForkOptions {
  readonly original: Pick<Backend, 'atomic' | 'shardOf'>;
  /** The part of the backend that an operation is run in, where one step cannot take all of them. */
  readonly partOf: (operation: Pick<Operation, 'key'>) => number;
  /** Set where the backend runs each operation by itself. */
  readonly spend?: 'each';
}

const FAILED = -1;

/** @param snapshots  by part */
export function forkFrom(snapshots: ReadonlyMap<number, Snapshot>, { original, partOf, spend }: ForkOptions): Fork {
  const copies = new Map(
    Array.from(snapshots, ([part, { nowMs, states }]) => [
      part,
      createMemoryBackend(() => nowMs, boundsOf(states), states),
    ]),
  );
  const failureOf = ({ key }: Pick<Operation, 'key'>): string | undefined =>
    copies.get(partOf({ key })) ? snapshots.get(partOf({ key }))?.failures.get(key) : 'the counter was not read';
  const run = (operations: readonly Operation[], how: RunOptions) =>
    scatter(
      operations,
      (operation) => (failureOf(operation) === undefined ? partOf(operation) : FAILED),
      (part, own) =>
        copies.get(part)?.run(own, spend ? { ...how, spend } : how) ?? own.map((one) => unavailable(failureOf(one))),
    );
  return {
    backend: {
      atomic: original.atomic,
      run,
      shardOf: (operation) => original.shardOf(operation),
      settle: async () => false,
      fork: () => {
        throw new TypeError('a fork is not forked again');
      },
      health: () => ({ ready: true }),
      close: async () => {},
    },
    nowMs: (key) => snapshots.get(partOf({ key }))?.nowMs ?? 0,
    stateOf: (key) => copies.get(partOf({ key }))?.stateOf(key),
  };
}

const unavailable = (reason = ''): Unavailable => ({ code: 'UNAVAILABLE', reason });

/** Where there is nothing to be copied. */
export const failedSnapshot = (nowMs: number, keys: readonly CounterKey[], reason: string): Snapshot => ({
  nowMs,
  states: new Map(),
  failures: new Map(keys.map((key) => [key, reason])),
});

/** As many counters as a request may have. */
const boundsOf = (states: ReadonlyMap<CounterKey, State>) => ({ maxCounters: states.size + MORE_COUNTERS });
const MORE_COUNTERS = 256 * 16;
