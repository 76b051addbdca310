import type { Clock } from '../../../base/clock.ts';
import { type Decision, MAX_WINDOW_MS, type State } from '../../algorithms/limit.ts';
import { algorithmFor, longestMemoryMs } from '../../holds/limits.ts';
import type { Backend, Fork, Operation, RunOptions } from '../backend.ts';
import { type CounterKey, childKey, childKeys } from '../key.ts';
import { readNodes, runOperations, type StepCounters, stepOne } from '../steps.ts';
import type { MemoryUsage } from '../usage.ts';
import { BoundedCounters, type CounterBounds } from './bounded-counters.ts';

/** When counters were reset, kept for as long as an earlier receipt could matter. */
type Resets = Map<CounterKey, { readonly atMs: number; readonly untilMs: number }>;

/** Counters in this process, and their totals. */
export interface MemoryBackend extends Backend {
  held(): { readonly counters: number; readonly bytes: number; readonly evicted: number };
  /** The time of the last request. */
  ranAtMs(): number;
  /** The counter's current state; undefined if it is new. */
  readState(key: CounterKey): State | undefined;
  fork(counters: readonly Pick<Operation, 'key' | 'share'>[]): Fork & { readonly backend: MemoryBackend };
}

interface MemoryOptions {
  /** Initial states of counters. Default: none. */
  readonly states?: ReadonlyMap<CounterKey, State>;
  /** To which metered operations add; absent: no usage is counted. */
  readonly usage?: MemoryUsage | undefined;
}

/** Time to live of a copied counter: longer than the state of any limit is relevant. */
const COPIED_TTL_MS = 4 * MAX_WINDOW_MS;

/** Counters in this process, lost on restart. Atomic: nothing awaits between read and write. No reply is a promise. */
export function createMemoryBackend(
  clock: Clock,
  bounds: CounterBounds,
  { states, usage }: MemoryOptions = {},
): MemoryBackend {
  const counters = new BoundedCounters(bounds);
  for (const [key, state] of states ?? [])
    counters.set(key, counters.find(key), { state, ttlMs: COPIED_TTL_MS }, clock());
  const readState = (key: CounterKey): State | undefined => counters.stateAt(counters.find(key), clock());
  const resets: Resets = new Map();
  const atMs = (nowMs: number): StepCounters => countersAt(nowMs, { counters, resets, usage });
  const runOne = (operation: Operation, nowMs: number): Decision =>
    isPlainSpend(operation, usage)
      ? spend(counters, operation, nowMs)
      : (runOperations(atMs(nowMs), [operation], 'each', nowMs)[0] as Decision); // one for each
  const run = (operations: readonly Operation[], { spend: how }: RunOptions, nowMs: number): readonly Decision[] => {
    if (how === 'each') return operations.map((operation) => runOne(operation, nowMs));
    return runOperations(atMs(nowMs), operations, how, nowMs);
  };
  let ranAtMs = 0;
  return {
    atomic: 'request',
    run(operations, how) {
      const nowMs = clock();
      ranAtMs = nowMs;
      const decisions = run(operations, how, nowMs);
      return how.receipts ? decisions.map((decision) => ({ ...decision, chargedAtMs: nowMs })) : decisions;
    },
    ranAtMs: () => ranAtMs,
    held: () => ({ counters: counters.size, bytes: counters.bytes, evicted: counters.evicted }),
    shardOf: () => '',
    async settle({ operations }) {
      run(operations, { spend: 'each', timeoutMs: 0 }, clock());
      return true;
    },
    readState,
    list: (after = '0', count) => {
      const from = Number(after);
      const next = from + count < counters.size ? { next: String(from + count) } : {};
      return { keys: counters.keys(from, count), ...next };
    },
    fork: (copied) => forkAt(clock(), copied, readState),
    invalidations: () => ({ publish: () => {}, isLive: () => true }), // no other process changes these counters
    health: () => ({ ready: true }),
    async close() {
      counters.clear();
      resets.clear();
    },
  };
}

interface Held {
  readonly counters: BoundedCounters;
  readonly resets: Resets;
  readonly usage: MemoryUsage | undefined;
}

const countersAt = (nowMs: number, { counters, resets, usage }: Held): StepCounters => ({
  read: (key) => counters.stateAt(counters.find(key), nowMs),
  write: (key, state, ttlMs) => counters.set(key, counters.find(key), { state, ttlMs }, nowMs),
  resetAtMs(key) {
    const reset = resets.get(key);
    return reset && reset.untilMs > nowMs ? reset.atMs : Number.NEGATIVE_INFINITY;
  },
  reset({ key, limit }) {
    for (const [one, { untilMs }] of resets) if (untilMs <= nowMs) resets.delete(one);
    resets.set(key, { atMs: nowMs, untilMs: nowMs + longestMemoryMs(limit) });
    counters.set(key, counters.find(key), { state: [], ttlMs: 0 }, nowMs);
    if (algorithmFor(limit).state.hasNodes) counters.drop(childKey(key, ''));
  },
  keepsPeeks: true,
  ...(usage && { meter: (operation: Operation, hits: number) => usage.add(operation, hits, nowMs) }),
});

function forkAt(
  nowMs: number,
  copied: readonly Pick<Operation, 'key' | 'share'>[],
  readState: MemoryBackend['readState'],
): ReturnType<MemoryBackend['fork']> {
  const keys = copied.flatMap((operation) => [operation.key, ...childKeys(operation)]);
  const known = keys.flatMap((key) => {
    const state = readState(key);
    return state ? [[key, state] as const] : [];
  });
  const copy = createMemoryBackend(() => nowMs, { maxCounters: keys.length + 1 }, { states: new Map(known) });
  const readCopy: Fork['readState'] = (counter) => readNodes(counter, copy.readState);
  return { backend: copy, nowMs: () => nowMs, readState: readCopy, findFailure: () => undefined };
}

/** Whether an operation only takes hits of one counter, as most do. */
const isPlainSpend = ({ kind, share, metered }: Operation, usage: MemoryUsage | undefined): boolean =>
  kind === 'spend' && !share && !(metered && usage);

function spend(counters: BoundedCounters, operation: Operation, nowMs: number): Decision {
  const found = counters.find(operation.key);
  const spent = stepOne(operation, counters.stateAt(found, nowMs), nowMs);
  counters.set(operation.key, found, spent, nowMs);
  return spent.decision;
}
