import { algorithmFor, type Limit } from '../algorithms/index.ts';
import type { Decision, Spend, State } from '../algorithms/limit.ts';
import type { Eventual } from '../later.ts';
import type { Counter, CounterKey } from './key.ts';

/** What is done to one counter. */
interface AnyOperation extends Counter {
  readonly limit: Limit;
  /** Whole hits, at least 0. */
  readonly hits: number;
  /** False for limits in shadow or quota mode: their refusal does not refuse the request. */
  readonly blocks: boolean;
}

/**
 * spend      takes hits as far as the limit lets them pass
 * peek       says what would become of so many hits; 0: whether the counter has room
 * give_back  returns hits without a receipt: Envoy's negative hits
 * charge     takes hits that have passed already, whatever the limit says
 * refund     takes back hits of one charge, as far as the counter still remembers it
 * forget     makes the counter new, and earlier receipts worthless
 */
export type Operation =
  | (AnyOperation & { readonly kind: 'spend' | 'peek' | 'give_back' | 'charge' | 'forget' })
  | (AnyOperation & { readonly kind: 'refund'; readonly chargedAtMs: number });

/** An operation that a request may ask for. */
export interface RequestOperation extends AnyOperation {
  readonly kind: 'spend' | 'peek' | 'give_back' | 'charge';
}

/**
 * What a request asks of a counter.
 *
 * @param hits     whole, as Envoy writes them: 0 peeks, a negative number gives hits back
 * @param charges  whatever the limit says, the hits are charged: they have been used already
 */
export function operationOf(
  { key, shared }: Counter,
  limit: Limit,
  hits: number,
  blocks: boolean,
  charges = false,
): RequestOperation {
  return { kind: kindOf(hits, charges), key, shared, limit, hits: Math.abs(hits), blocks };
}

/** What so many hits ask for. */
export function kindOf(hits: number, charges: boolean): RequestOperation['kind'] {
  if (hits > 0) return charges ? 'charge' : 'spend';
  return hits === 0 ? 'peek' : 'give_back';
}

/** Hits as the algorithms take them: below 0 they are given back. */
export const signedHits = ({ kind, hits }: Operation): number => (kind === 'give_back' ? -hits : hits);

/** Whether an operation of a request that spends as a set is counted even if the request is refused. */
export const standsAlone = (operation: Operation): boolean =>
  (operation.kind === 'spend' || operation.kind === 'give_back') &&
  (algorithmFor(operation.limit).standsAlone?.(operation.limit, signedHits(operation)) ?? false);

/**
 * For each operation, what its request has asked of the same counter so far, itself included: what would have to fit
 * for the same request to pass.
 */
export function askedTogether(operations: readonly Operation[]): readonly number[] {
  const asked = new Map<CounterKey, number>();
  return operations.map((operation) => {
    const together = (asked.get(operation.key) ?? 0) + signedHits(operation);
    asked.set(operation.key, together);
    return together;
  });
}

/** An operation that the backend could not run in time. */
export interface Unavailable {
  readonly code: 'UNAVAILABLE';
  /** What was in the way, for logs; it names no credentials. */
  readonly reason: string;
  /** The time was over because this process was late, not because the engine did not answer. */
  readonly isProcessLate?: true;
}

export type Reply = Decision | Unavailable;
export type Replies = readonly Reply[];

/** How a request's operations are run. */
export interface RunOptions {
  readonly spend: Spend;
  readonly timeoutMs: number;
  /** Replies carry the backend's time of the charge. */
  readonly receipts?: boolean;
}

/** Whether the backend can be used, and if not, why: for health checks. */
export type BackendHealth = { readonly ready: true } | { readonly ready: false; readonly reason: string };

/** Charges of an instance that are to be counted once, however often they are sent. */
export interface Settlement {
  /** Names the process; another one after each start. */
  readonly instance: string;
  /** Counts up from 1 with each settlement of the instance on one shard. */
  readonly number: number;
  readonly operations: readonly Operation[];
}

/** Changes to counters that other instances have to know of. */
export interface Invalidations {
  /** Counters may have room again (`changed`), or are new (`forgotten`). */
  publish(what: 'changed' | 'forgotten', key: CounterKey): void;
  /** Whether changes of other instances arrive. */
  isLive(): boolean;
}

/** Is called with changes that other instances publish. */
export interface InvalidationListener {
  changed(key: CounterKey): void;
  forgotten(key: CounterKey): void;
  /** Changes may have been missed until now. */
  missed(): void;
}

/** Some counters of a backend. */
export interface CounterPage {
  readonly keys: readonly CounterKey[];
  /** Where the next page begins; absent: this is the last. */
  readonly next?: string;
}

/** A copy of some counters, which goes on by itself on a clock that stands still. */
export interface Fork {
  readonly backend: Backend;
  /** The clock that decides on the counter. */
  nowMs(key: CounterKey): number;
  /** What the copy holds now; undefined for a new counter. */
  stateOf(key: CounterKey): State | undefined;
}

/** Keeps counters; knows no policy. Every backend passes test/backends/conformance.ts. */
export interface Backend {
  /** What one `run` is atomic over: the whole request, or each counter by itself. */
  readonly atomic: 'request' | 'counter';
  /**
   * Runs one request's operations, in order, in one step as far as `atomic` says; replies come back in the same order,
   * and a key that appears twice sees its own first operation. `Unavailable`, per operation, when the engine cannot
   * answer within `timeoutMs`; never because a limit is exceeded. Never rejects, never takes noticeably longer than
   * `timeoutMs`. What needs no waiting is replied without a promise.
   */
  run(operations: readonly Operation[], how: RunOptions): Eventual<Replies>;
  /** Operations of the same shard can be settled together. */
  shardOf(operation: Operation): string;
  /**
   * Counts a settlement once: one that is sent again does nothing.
   *
   * @returns false  it is unknown whether it has been counted: send the same number again
   */
  settle(settlement: Settlement, timeoutMs: number): Promise<boolean>;
  /**
   * Copies counters as they are now; what is run on the copy changes nothing here. Counters that cannot be read within
   * `timeoutMs` are unavailable in the copy. Never rejects.
   */
  fork(counters: readonly Pick<Operation, 'key' | 'shared'>[], timeoutMs: number): Fork | Promise<Fork>;
  /**
   * Lists about so many counters, in no order, and each at least once while nothing is added or removed; other keys may
   * be among them. Absent where the engine cannot list.
   *
   * @param after  what the last page gave as `next`; undefined: from the beginning
   */
  list?(after: string | undefined, count: number): CounterPage | Promise<CounterPage>;
  /** Undefined if other instances cannot be notified. Subscribes on the first call. */
  invalidations?(listener: InvalidationListener): Invalidations;
  health(): BackendHealth;
  close(): Promise<void>;
}

/** The counters could not be reached in time. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
}
