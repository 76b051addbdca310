import type { Charge, Decision, Spend, State, Step } from '../algorithms/limit.ts';
import { algorithmFor, isReservation } from '../holds/limits.ts';
import { joinNodes, nodeState } from '../holds/nodes.ts';
import {
  describeRun,
  marksRefusal,
  type Operation,
  signedHits,
  standsAlone,
  type TriedHits,
  triedHits,
} from './backend.ts';
import { type CounterKey, childKeys } from './key.ts';
import { type CounterUse, type Hit, type HitStore, runRequest } from './requests.ts';
import { heldAt } from './usage.ts';

/** Counters of a store, for the time of a request. */
export interface StepCounters {
  read(key: CounterKey): State | undefined;
  write(key: CounterKey, state: State, ttlMs: number): void;
  /** Receipts of charges up to then are void. */
  resetAtMs(key: CounterKey): number;
  /** Resets the counter, and keeps the time. */
  reset(operation: Operation): void;
  /** A peek without hits is kept, too, since it counts as use. */
  readonly keepsPeeks?: true;
  /** Adds hits to the usage of a counter. Absent: none is counted. */
  meter?(operation: Operation, hits: number): void;
}

interface StepHit extends Hit {
  readonly operation: Operation;
  /** Its place in the request. */
  readonly at: number;
}

/** Runs the operations of a request, as the script in Redis does, and describes their outcomes. */
export function runOperations(
  counters: StepCounters,
  operations: readonly Operation[],
  spend: Spend,
  nowMs: number,
): readonly Decision[] {
  const decisions: Decision[] = [];
  let tried: readonly TriedHits[] | undefined;
  const trial = new Map<CounterKey, State>();
  const read = (key: CounterKey): State | undefined => trial.get(key) ?? counters.read(key);
  const load = (operation: Operation): State | undefined => readNodes(operation, read);
  const each = (operation: Operation, state: State, use: (key: CounterKey, state: State) => void): void => {
    if (!operation.share) return use(operation.key, state);
    for (const [at, one] of [operation.key, ...childKeys(operation)].entries()) use(one, nodeState(state, at));
  };
  const step = ({ operation }: StepHit, hits: number, charge: Charge): Step =>
    algorithmFor(operation.limit).step(operation.limit, load(operation), nowMs, hits, charge, operation);
  const store: HitStore<StepHit> = {
    step,
    refund({ operation }) {
      const { limit, key, hits } = operation;
      const chargedAtMs = operation.kind === 'refund' ? operation.chargedAtMs : nowMs;
      const kept = chargedAtMs <= counters.resetAtMs(key) ? 0 : hits;
      return algorithmFor(limit).refund(limit, load(operation), nowMs, kept, chargedAtMs, operation);
    },
    forget({ operation }) {
      counters.reset(operation);
      return algorithmFor(operation.limit).step(operation.limit, undefined, nowMs, 0, false, operation);
    },
    isNew: ({ operation }) => load(operation) === undefined,
    keep: ({ operation }, state, ttlMs) => each(operation, state, (key, own) => counters.write(key, own, ttlMs)),
    save: () => {},
    assume: ({ operation }, state) => each(operation, state, (key, own) => trial.set(key, own)),
    restore: () => trial.clear(),
    spared: () => {},
    meter: ({ operation }, hits) => counters.meter?.(operation, hits),
    answer({ operation, at }, accepted, charged, report) {
      const isTried = charged === false && spend !== 'each';
      if (isTried) tried ??= triedHits(operations);
      decisions[at] = describeRun(operation, report, nowMs, { accepted, charged }, isTried ? tried?.[at] : undefined);
    },
  };
  runRequest(store, listHits(operations, spend, counters), spend);
  return decisions;
}

function listHits(
  operations: readonly Operation[],
  spend: Spend,
  { meter, keepsPeeks }: StepCounters,
): readonly StepHit[] {
  const uses = new Map<CounterKey, CounterUse>();
  return operations.map((operation, at) => {
    const { key, kind, limit, blocks, metered, commits = false } = operation;
    const counter = uses.get(key) ?? { uses: 0, asked: 0, isUnusable: false };
    uses.set(key, counter);
    const isMetered = meter !== undefined && metered !== undefined;
    return {
      ...{ operation, at, counter, blocks, commits, isMetered },
      kind: keepsPeeks && kind === 'peek' && operation.hits === 0 ? 'spend' : kind,
      hits: signedHits(operation),
      isAlone: spend !== 'each' && standsAlone(operation),
      marksRefusal: marksRefusal(operation),
      reserves: isReservation(limit),
      held: isMetered && kind === 'give_back' ? heldAt(operation) : undefined,
    };
  });
}

/** The state of a counter; of a shared limit, with those of the children on the path. */
export function readNodes(
  counter: Pick<Operation, 'key' | 'share'>,
  read: (key: CounterKey) => State | undefined,
): State | undefined {
  const own = read(counter.key);
  return counter.share ? joinNodes([own, ...childKeys(counter).map(read)]) : own;
}

/** The step of a spend from a state, with the decision about it. */
export function stepOne(spend: Operation, state: State | undefined, nowMs: number) {
  const { limit, hits } = spend;
  const { step, describe } = algorithmFor(limit);
  const next = step(limit, state, nowMs, hits, true, spend);
  const outcome = { hits, accepted: next.accepted, charged: true };
  const { state: after, ttlMs } = next;
  return { state: after, ttlMs, decision: describe(limit, next.report ?? after, nowMs, outcome, spend) };
}

interface StepTimes {
  readonly nowMs: number;
  /** Receipts of charges up to then are void. */
  readonly resetAtMs: number;
}

/** Runs operations on one counter, one after another, and describes their outcomes. */
export function stepAll(operations: readonly Operation[], before: State | undefined, times: StepTimes) {
  let state = before;
  let ttlMs = 0;
  const counter: StepCounters = {
    read: () => state,
    write(_key, next, nextMs) {
      state = next;
      ttlMs = nextMs;
    },
    resetAtMs: () => times.resetAtMs,
    reset() {
      state = [];
      ttlMs = 0;
    },
  };
  const decisions = runOperations(counter, operations, 'each', times.nowMs);
  return { decisions, state, ttlMs };
}
