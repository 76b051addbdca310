import type { Eventual } from '../../base/later.ts';
import type { Decision, Outcome, Spend, State } from '../algorithms/limit.ts';
import type { Claim } from '../holds/claim.ts';
import { algorithmFor, canBlock, type Limit } from '../holds/limits.ts';
import type { Reports } from '../holds/reports.ts';
import type { Counter, CounterKey } from './key.ts';

/** An operation on one counter. */
interface AnyOperation extends Counter, Claim {
  readonly limit: Limit;
  /** An integer, at least 0. */
  readonly hits: number;
  /** False for limits in shadow or quota mode: their refusal does not refuse the request. */
  readonly blocks: boolean;
  /** The hits are usage: see usage.ts. `all`: also those beyond the limit, since none are refused. */
  readonly metered?: true | 'all' | undefined;
  /** The key that usage is booked under, which names the child of a shared limit. Default: the counter's key. */
  readonly usageKey?: CounterKey | undefined;
}

/**
 * spend      takes hits as far as the limit admits them
 * peek       returns the outcome of spending the hits; with 0 hits, whether the counter has room
 * give_back  returns hits without a receipt: Envoy's negative hits
 * charge     takes hits that have passed already, even beyond the limit
 * refund     takes back hits of one charge, as far as the counter still has them
 * forget     resets the counter, and voids earlier receipts
 */
export type Operation =
  | (AnyOperation & { readonly kind: 'spend' | 'peek' | 'give_back' | 'charge' | 'forget' })
  | (AnyOperation & { readonly kind: 'refund'; readonly chargedAtMs: number });

/** An operation that a request may cause. */
export interface RequestOperation extends AnyOperation {
  readonly kind: 'spend' | 'peek' | 'give_back' | 'charge';
}

/** Hits as the algorithms take them: negative if they are given back. */
export const signedHits = ({ kind, hits }: Operation): number => (kind === 'give_back' ? -hits : hits);

/** Whether an operation of a request that spends as a set is counted even if the request is refused. */
export const standsAlone = (operation: Operation): boolean =>
  (operation.kind === 'spend' || operation.kind === 'give_back') &&
  (algorithmFor(operation.limit).standsAlone?.(operation.limit, signedHits(operation), operation) ?? false);

/** Whether its refusal is noted in the counter, although nothing is charged: a child waits, or a block begins. */
export const marksRefusal = ({ kind, slotShare, limit }: Operation): boolean =>
  kind === 'spend' && (slotShare !== undefined || canBlock(limit));

/** Whether an operation is a peek for hits, which is decided regardless of the request's other operations. */
export const isForItself = ({ kind, hits }: Operation): boolean => kind === 'peek' && hits > 0;

/** Context of an operation that its request only tries, after earlier ones on the same counter. */
export interface TriedHits {
  /** Hits requested from the counter so far, including its own, which must fit for the same request to pass. */
  readonly cumulative: number;
  /** Hits that the earlier operations add to the count, and the lowest count that they leave. */
  readonly added: number;
  readonly least: number;
}

const NONE_TRIED: TriedHits = { cumulative: 0, added: 0, least: Number.NEGATIVE_INFINITY };

/** For each operation of a request. */
export function triedHits(operations: readonly Operation[]): readonly TriedHits[] {
  const counters = new Map<CounterKey, TriedHits>();
  return operations.map((operation) => {
    const { key, kind } = operation;
    const hits = signedHits(operation);
    if (isForItself(operation)) return { ...NONE_TRIED, cumulative: hits };
    const before = counters.get(key) ?? NONE_TRIED;
    const cumulative = before.cumulative + hits;
    const least = Math.max(before.least + hits, 0);
    const isAdded = !standsAlone(operation);
    counters.set(key, isAdded ? { cumulative, added: before.added + hits, least } : { ...before, cumulative });
    return { ...(kind === 'peek' ? NONE_TRIED : before), cumulative };
  });
}

/** The decision about an operation that was run. @param tried  set if its request only tried it */
export function describeRun(
  operation: Operation,
  report: State,
  nowMs: number,
  done: Pick<Outcome, 'accepted' | 'charged'>,
  tried?: TriedHits,
): CounterDecision {
  const { limit, kind } = operation;
  const isTakenBack = kind === 'refund' || kind === 'forget';
  const outcome = { ...done, hits: isTakenBack ? 0 : (tried?.cumulative ?? signedHits(operation)) };
  const decision = algorithmFor(limit).describe(limit, report, nowMs, outcome, operation);
  return tried ? afterEarlierHits(decision, tried) : decision;
}

/** The same on the count that the earlier hits would have made. */
export function afterEarlierHits<D extends Decision>(decision: D, { added, least }: TriedHits): D {
  const hitsBefore = Math.max(decision.hitsBefore + added, least);
  return hitsBefore === decision.hitsBefore ? decision : { ...decision, hitsBefore };
}

/** An operation that the backend could not run in time. */
export interface Unavailable {
  readonly code: 'UNAVAILABLE';
  /** The cause, for logs; it contains no credentials. */
  readonly reason: string;
  /** Whether this process could not ask in time, because it was late or has more to ask than the engine can answer. */
  readonly isOverload?: true;
  /** Whether the operation was sent, so that the engine may have run it, or may still run it. */
  readonly isUnknown?: true;
}

/** The decision about an operation that was run. */
export interface CounterDecision extends Decision, Reports {
  /** The store's time of the charge, in milliseconds since the epoch; only if receipts were requested. */
  readonly chargedAtMs?: number;
}

export type Reply = CounterDecision | Unavailable;
export type Replies = readonly Reply[];

/** How a request's operations are run. */
export interface RunOptions {
  readonly spend: Spend;
  readonly timeoutMs: number;
  /** Maximum of `timeoutMs` when time in which this process does not run is added to it. Default: nothing is added. */
  readonly longestMs?: number;
  /** Replies carry the backend's time of the charge. */
  readonly receipts?: boolean;
}

/** Whether the backend can be used, and if not, why: for health checks. */
export type BackendHealth = { readonly ready: true } | { readonly ready: false; readonly reason: string };

/** An instance's charges that are counted once, however often they are sent. */
export interface Settlement {
  /** Identifies the process; different after each start. */
  readonly instance: string;
  /** Increases from 1 with each settlement of the instance on one shard. */
  readonly number: number;
  readonly operations: readonly Operation[];
}

/** Changes to counters that other instances must learn of. */
export interface Invalidations {
  /** Counters may have room again (`changed`), or were reset (`forgotten`). */
  publish(what: 'changed' | 'forgotten', key: CounterKey): void;
  /** Whether changes by other instances arrive. */
  isLive(): boolean;
}

/** Receives changes that other instances publish. */
export interface InvalidationListener {
  changed(key: CounterKey): void;
  forgotten(key: CounterKey): void;
  /** Changes may have been missed until now. */
  missed(): void;
  /** The store may have lost its counters: refusals up to now hold whatever it answers. */
  doubted?(): void;
  /** It has not. */
  trusted?(): void;
}

/** A page of a backend's counters. */
export interface CounterPage {
  readonly keys: readonly CounterKey[];
  /** Start of the next page; absent on the last one. */
  readonly next?: string;
}

/** A copy of some counters, which is independent of them and has a stopped clock. */
export interface Fork {
  readonly backend: Backend;
  /** The clock used to decide on the counter. */
  nowMs(key: CounterKey): number;
  /** Current state in the copy; undefined if the counter is new, or could not be read. */
  readState(counter: Pick<Operation, 'key' | 'share'>): State | undefined;
  /** Reason why the counter could not be read; undefined if it was. */
  findFailure(key: CounterKey): string | undefined;
}

/** The replies to a request that are known by now without the engine, if any. */
export type Recall = (operations: readonly Operation[]) => Replies | undefined;

/** Stores counters; knows no policy. Every backend passes test/engine/backends/conformance.ts. */
export interface Backend {
  /** The scope in which a `run` is atomic: the whole request, or each counter. */
  readonly atomic: 'request' | 'counter';
  /**
   * Runs one request's operations, in order, as atomically as `atomic` says. Replies are in the same order; if a key
   * appears twice, its second operation sees the first. An operation gets `Unavailable` if the engine cannot answer
   * within `timeoutMs`, and never because a limit is exceeded. Never rejects, and never takes noticeably longer than
   * `timeoutMs`. Replies that need no waiting come without a promise.
   */
  run(operations: readonly Operation[], how: RunOptions): Eventual<Replies>;
  /**
   * Whether the node of a counter owes replies for much longer than they usually take. Absent: unknown.
   *
   * @param nowMs  on the clock of the process's monotonic time
   */
  isSilent?(operation: Operation, nowMs: number): boolean;
  /** Answers requests that have waited for their turn by what is known then, if anything. Absent: requests do not wait. */
  recallWith?(recall: Recall): void;
  /** Operations of the same shard can be settled together. */
  shardOf(operation: Operation): string;
  /**
   * Counts a settlement once: repeating it has no effect.
   *
   * @returns false if it may not have been counted; send the same number again
   */
  settle(settlement: Settlement, timeoutMs: number): Promise<boolean>;
  /**
   * Copies counters as they are now; operations on the copy change nothing here. Counters that cannot be read within
   * `timeoutMs` are unavailable in the copy. Never rejects.
   */
  fork(
    counters: readonly Pick<Operation, 'key' | 'limit' | 'shared' | 'share'>[],
    timeoutMs: number,
  ): Fork | Promise<Fork>;
  /**
   * Lists about `count` counters, in no order, and each at least once if none is added or removed meanwhile; there may
   * be other keys. Absent if the engine cannot list.
   *
   * @param after  `next` of the previous page; undefined for the first page
   * @throws StoreUnavailable
   */
  list?(after: string | undefined, count: number): CounterPage | Promise<CounterPage>;
  /** Undefined if other instances cannot be notified. Subscribes on the first call. */
  invalidations?(listener: InvalidationListener): Invalidations;
  health(): BackendHealth;
  /** Why only fixed windows can be counted, on single counters; undefined if all can, or if it is not known yet. */
  limitation?(): string | undefined;
  close(): Promise<void>;
}

/** The counters could not be reached in time. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
}
