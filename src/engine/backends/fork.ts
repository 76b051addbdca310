import type { State } from '../algorithms/limit.ts';
import type { Backend, Fork, Operation, RunOptions, Unavailable } from './backend.ts';
import type { CounterKey } from './key.ts';
import { createMemoryBackend, type MemoryBackend } from './memory/backend.ts';
import { scatter } from './scatter.ts';
import { readNodes } from './steps.ts';

/** Counters at one point in time. */
export interface Snapshot {
  /** The backend's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  readonly states: ReadonlyMap<CounterKey, State>;
  /** Why counters could not be read. */
  readonly failures: ReadonlyMap<CounterKey, string>;
}

/** How the copied backend runs operations. */
interface ForkOptions {
  readonly original: Pick<Backend, 'atomic' | 'shardOf'>;
  /** The part of the backend that runs an operation, if one step cannot run all. */
  readonly partOf: (operation: Pick<Operation, 'key'>) => number;
  /** Set if the backend runs each operation separately. */
  readonly spend?: 'each';
}

/** @param snapshots  by part */
export function forkFrom(snapshots: ReadonlyMap<number, Snapshot>, { original, partOf, spend }: ForkOptions): Fork {
  const copies = new Map(
    Array.from(snapshots, ([part, { nowMs, states }]) => [
      part,
      createMemoryBackend(() => nowMs, { maxCounters: states.size + MORE_COUNTERS }, { states }),
    ]),
  );
  const findFailure = (key: CounterKey): string | undefined => {
    const snapshot = snapshots.get(partOf({ key }));
    return snapshot ? snapshot.failures.get(key) : 'the counter was not read';
  };
  /** Copy that has the operation's counter, or undefined. */
  const findCopy = ({ key }: Pick<Operation, 'key'>): MemoryBackend | undefined =>
    findFailure(key) === undefined ? copies.get(partOf({ key })) : undefined;
  const run = (operations: readonly Operation[], how: RunOptions) =>
    scatter(
      operations,
      findCopy,
      (copy, own) =>
        copy?.run(own, spend ? { ...how, spend } : how) ?? own.map(({ key }) => unavailable(findFailure(key))),
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
    readState: (counter) => {
      const copy = findCopy(counter);
      return copy && readNodes(counter, copy.readState);
    },
    findFailure,
  };
}

const unavailable = (reason = ''): Unavailable => ({ code: 'UNAVAILABLE', reason });

/** The snapshot if nothing can be copied. */
export const failedSnapshot = (nowMs: number, keys: readonly CounterKey[], reason: string): Snapshot => ({
  nowMs,
  states: new Map(),
  failures: new Map(keys.map((key) => [key, reason])),
});

/** Room for the other counters of a request. */
const MORE_COUNTERS = 256 * 16;
