import type { Clock } from '../../../base/clock.ts';
import {
  type Charge,
  type Decision,
  MAX_WINDOW_MS,
  type Outcome,
  type State,
  type Step,
} from '../../algorithms/limit.ts';
import { joinNodes, nodeState } from '../../holds/fair-share.ts';
import { algorithmFor, longestMemoryMs } from '../../holds/limits.ts';
import {
  afterEarlierHits,
  type Backend,
  type CounterDecision,
  type Fork,
  isForItself,
  marksRefusal,
  type Operation,
  type RunOptions,
  signedHits,
  standsAlone,
  type TriedHits,
  triedHits,
} from '../backend.ts';
import { type CounterKey, childKeys } from '../key.ts';
import { givenHits, type MemoryUsage, usedHits } from '../usage.ts';
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

/**
 * Counters in this process, lost on restart. Atomic because nothing awaits between read and write; replies without a
 * promise.
 */
export function createMemoryBackend(
  clock: Clock,
  bounds: CounterBounds,
  { states, usage }: MemoryOptions = {},
): MemoryBackend {
  const counters = new BoundedCounters(bounds);
  for (const [key, state] of states ?? [])
    counters.set(key, counters.find(key), { accepted: true, state, ttlMs: COPIED_TTL_MS }, clock());
  const readState = (key: CounterKey): State | undefined => counters.stateAt(counters.find(key), clock());
  const resets: Resets = new Map();
  const chargeOne = (operation: Operation, nowMs: number): Decision =>
    operation.kind === 'spend' || operation.kind === 'give_back'
      ? spend(counters, operation, nowMs, true)
      : runOther(counters, resets, operation, nowMs);
  const runOne = (operation: Operation, nowMs: number): Decision =>
    usage && operation.metered
      ? meter({ usage, counters, nowMs }, operation, () => chargeOne(operation, nowMs))
      : chargeOne(operation, nowMs);
  const run = (operations: readonly Operation[], { spend: how }: RunOptions, nowMs: number): readonly Decision[] => {
    const [only] = operations;
    if (only && operations.length === 1 && how === 'each') return [runOne(only, nowMs)];
    if (how === 'each') return operations.map((operation) => runOne(operation, nowMs));
    const passes = tryAll(counters, operations, nowMs);
    if (operations.every(({ blocks }, at) => passes[at] || !blocks))
      return operations.map((operation) => runOne(operation, nowMs));
    const mayCharge = how === 'spare_others';
    const tried = triedHits(operations);
    return operations.map((operation, at) => {
      const isAccepted = passes[at] ?? false;
      const charge = () => chargeRefused(counters, operation, isAccepted, mayCharge, nowMs);
      const refusal = usage && operation.metered ? meter({ usage, counters, nowMs }, operation, charge) : charge();
      if (refusal) return refusal;
      const own = tried[at] as TriedHits; // in range
      const hits = own.cumulative;
      const peek = runStep(operation, hits, load(counters, operation, nowMs), nowMs, false);
      const accepted = isForItself(operation) ? peek.accepted : isAccepted;
      const decision = describeStep(operation, peek, nowMs, { hits, accepted, charged: false });
      return afterEarlierHits(decision, own);
    });
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

/** Where an operation is charged, and its usage counted. */
interface MeteredCounters {
  readonly usage: MemoryUsage;
  readonly counters: BoundedCounters;
  readonly nowMs: number;
}

/** Charges an operation and books its usage. @param charge  returns undefined if there is nothing to charge */
function meter<D extends CounterDecision | undefined>(
  { usage, counters, nowMs }: MeteredCounters,
  operation: Operation,
  charge: () => D,
): D {
  const isGiven = operation.kind === 'give_back';
  const before = isGiven ? load(counters, operation, nowMs) : undefined;
  const decision = charge();
  if (!decision) return decision;
  const given = isGiven ? givenHits(operation, before, load(counters, operation, nowMs), nowMs) : 0;
  const used = usedHits(operation, decision.code === 'OK', decision.reservation?.usage ?? 0, given);
  usage.add(operation, used, nowMs);
  return decision;
}

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

/** The state of a counter; of a shared limit, with those of the children on the path. */
export function readNodes(
  counter: Pick<Operation, 'key' | 'share'>,
  read: (key: CounterKey) => State | undefined,
): State | undefined {
  const own = read(counter.key);
  return counter.share ? joinNodes([own, ...childKeys(counter).map(read)]) : own;
}

const load = (counters: BoundedCounters, operation: Operation, nowMs: number): State | undefined =>
  readNodes(operation, (key) => counters.stateAt(counters.find(key), nowMs));

/** Stores what `load` has read. */
function save(counters: BoundedCounters, operation: Operation, step: Step, nowMs: number): void {
  const { key, share } = operation;
  if (!share) return counters.set(key, counters.find(key), step, nowMs);
  for (const [at, one] of [key, ...childKeys(operation)].entries())
    counters.set(one, counters.find(one), { ...step, state: nodeState(step.state, at) }, nowMs);
}

function spend(counters: BoundedCounters, operation: Operation, nowMs: number, charge: Charge): Decision {
  const hits = signedHits(operation);
  if (operation.share) {
    const step = runStep(operation, hits, load(counters, operation, nowMs), nowMs, charge);
    save(counters, operation, step, nowMs);
    return describeStep(operation, step, nowMs, { hits, accepted: step.accepted, charged: charge });
  }
  const found = counters.find(operation.key);
  const step = runStep(operation, hits, counters.stateAt(found, nowMs), nowMs, charge);
  counters.set(operation.key, found, step, nowMs);
  return describeStep(operation, step, nowMs, { hits, accepted: step.accepted, charged: charge });
}

function runOther(counters: BoundedCounters, resets: Resets, operation: Operation, nowMs: number): Decision {
  const { key, limit, hits } = operation;
  const found = counters.find(key);
  const state = load(counters, operation, nowMs);
  switch (operation.kind) {
    case 'refund': {
      const { chargedAtMs } = operation;
      const reset = resets.get(key);
      const kept = reset && reset.untilMs > nowMs && chargedAtMs <= reset.atMs ? 0 : hits;
      const step = algorithmFor(limit).refund(limit, state, nowMs, kept, chargedAtMs, operation);
      if (state) save(counters, operation, step, nowMs);
      return describeStep(operation, step, nowMs, { hits: 0, accepted: true, charged: false });
    }
    case 'forget': {
      for (const [one, { untilMs }] of resets) if (untilMs <= nowMs) resets.delete(one);
      resets.set(key, { atMs: nowMs, untilMs: nowMs + longestMemoryMs(limit) });
      counters.set(key, found, { accepted: true, state: [], ttlMs: 0 }, nowMs);
      const fresh = algorithmFor(limit).step(limit, undefined, nowMs, 0, false, operation);
      return describeStep(operation, fresh, nowMs, { hits: 0, accepted: fresh.accepted, charged: false });
    }
    case 'charge':
      return spend(counters, operation, nowMs, 'regardless');
    default: {
      const step = runStep(operation, hits, state, nowMs, false);
      if (hits === 0 && !operation.share) counters.set(key, found, step, nowMs); // a peek counts as use
      return describeStep(operation, step, nowMs, { hits, accepted: step.accepted, charged: false });
    }
  }
}

/** For each operation, whether it would be accepted if all were run in this order. */
function tryAll(counters: BoundedCounters, operations: readonly Operation[], nowMs: number): readonly boolean[] {
  const states = new Map<CounterKey, State>();
  return operations.map((operation) => {
    const { key, share } = operation;
    const keys = share ? [key, ...childKeys(operation)] : [key];
    const found = keys.map((one) => states.get(one) ?? counters.stateAt(counters.find(one), nowMs));
    const charge = operation.kind !== 'peek';
    const before = share ? joinNodes(found) : found[0];
    const { accepted, state } = runStep(operation, signedHits(operation), before, nowMs, charge);
    for (const [at, one] of keys.entries()) states.set(one, share ? nodeState(state, at) : state);
    return accepted;
  });
}

/**
 * Charges an operation of a refused request if it is refused itself or stands alone. Undefined if it is not charged.
 */
function chargeRefused(
  counters: BoundedCounters,
  operation: Operation,
  accepted: boolean,
  mayCharge: boolean,
  nowMs: number,
): Decision | undefined {
  const isAlone = standsAlone(operation);
  const isCharged = (mayCharge || marksRefusal(operation)) && !accepted && !isForItself(operation);
  if (!isAlone && !isCharged) return undefined;
  const hits = signedHits(operation);
  const step = runStep(operation, hits, load(counters, operation, nowMs), nowMs, true);
  if (!isAlone && step.accepted) return undefined;
  save(counters, operation, step, nowMs);
  return describeStep(operation, step, nowMs, { hits, accepted, charged: true });
}

const runStep = (operation: Operation, hits: number, state: State | undefined, nowMs: number, charge: Charge): Step =>
  algorithmFor(operation.limit).step(operation.limit, state, nowMs, hits, charge, operation);

const describeStep = (
  operation: Operation,
  { state, report = state }: Step,
  nowMs: number,
  outcome: Outcome,
): Decision => algorithmFor(operation.limit).describe(operation.limit, report, nowMs, outcome, operation);
