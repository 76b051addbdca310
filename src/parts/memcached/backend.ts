import type { Clock, Monotonic } from '../../base/clock.ts';
import type { Eventual } from '../../base/later.ts';
import { type Decision, MAX_COUNT, type State, type Step } from '../../engine/algorithms/limit.ts';
import {
  type Backend,
  type BackendHealth,
  type Fork,
  type Operation,
  type Replies,
  type RunOptions,
  type Settlement,
  signedHits,
  type Unavailable,
} from '../../engine/backends/backend.ts';
import { swap } from '../../engine/backends/cas.ts';
import { forkFrom } from '../../engine/backends/fork.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { type Lateness, PUNCTUAL } from '../../engine/backends/lateness.ts';
import { packState, unpackState } from '../../engine/backends/packed-state.ts';
import { scatter } from '../../engine/backends/scatter.ts';
import { within } from '../../engine/backends/within.ts';
import { algorithmFor, longestMemoryMs } from '../../engine/holds/limits.ts';
import { countIn, type MemcachedClient, safeKey, toExptime } from './client.ts';
import type { MemcachedServers } from './servers.ts';

/** Operations of one request on one counter, and the callbacks for their result. */
interface Waiting {
  readonly operations: readonly Operation[];
  /** Deadline on the monotonic clock. */
  readonly untilMs: number;
  resolve(decisions: readonly Decision[]): void;
  reject(error: Error): void;
}

export interface Clocks {
  /** This process's clock. */
  readonly clock: Clock;
  readonly monotonicMs: Monotonic;
  /** Only for tests whose clock differs from the servers': the clock for expiry times. */
  readonly dateClock?: Clock;
}

interface MemcachedOptions {
  /** The timer lag of this process. Default: none. */
  readonly lateness?: Lateness;
  /** Counters of other programs in addition to the service's own. */
  readonly foreign?: ForeignStates | undefined;
}

/** Counters in another format than states, on which other programs count as well. */
export interface ForeignStates {
  has(operation: Operation): boolean;
  /** Runs operations on one counter, one after another. */
  count(
    counter: ForeignCounter,
    operations: readonly Operation[],
    clocks: Required<Clocks>,
  ): Promise<readonly Decision[]>;
}

export interface ForeignCounter {
  readonly key: string;
  /** The counter's server at present. @throws if none is known */
  server(): MemcachedClient;
}

/**
 * Counters in memcached, which any number of instances share. Each counter is exact by itself: its state is read,
 * stepped on this process's clock, and swapped for the new one only if it has not changed meanwhile; otherwise this is
 * repeated. Operations that arrive in the meantime are run together next. The limits of a request are not one step:
 * `spend` has no effect here.
 */
export class MemcachedBackend implements Backend {
  readonly atomic = 'counter';
  readonly #servers: MemcachedServers;
  readonly #clocks: Required<Clocks>;
  readonly #queues = new Map<string, Waiting[]>();
  readonly #foreign: ForeignStates | undefined;
  /** The recent timer lag of this process. */
  readonly #lateness: Lateness;

  constructor(servers: MemcachedServers, clocks: Clocks, { lateness = PUNCTUAL, foreign }: MemcachedOptions = {}) {
    this.#servers = servers;
    this.#lateness = lateness;
    this.#clocks = { dateClock: clocks.clock, ...clocks };
    this.#foreign = foreign;
  }

  run(operations: readonly Operation[], how: RunOptions): Eventual<Replies> {
    return scatter(
      operations,
      ({ key }) => key,
      (_, own) => this.#runOne(own, how),
    );
  }

  shardOf({ key }: Operation): string {
    return key;
  }

  /** A settlement that may have been counted is assumed to be counted: memcached stores nothing to verify it with. */
  async settle({ operations }: Settlement, timeoutMs: number): Promise<boolean> {
    const outcome = await within(timeoutMs, this.#count(operations, timeoutMs));
    return 'value' in outcome || isSent(outcome.reason);
  }

  async fork(counters: readonly Pick<Operation, 'key' | 'shared'>[], timeoutMs: number): Promise<Fork> {
    const nowMs = this.#clocks.clock();
    const states = new Map<CounterKey, State>();
    const failures = new Map<CounterKey, string>();
    const read = async ({ key, shared }: Pick<Operation, 'key' | 'shared'>): Promise<void> => {
      const name = safeKey(key);
      const get = async () => (await this.#findServer(name).get(name))?.value;
      const reply = await within(timeoutMs, get());
      if ('reason' in reply) failures.set(key, `memcached: ${reply.reason}`);
      else if (shared) states.set(key, [shared.windowStartMs, Math.min(countIn(reply.value), MAX_COUNT)]);
      else if (reply.value) {
        const state = unpackState(reply.value);
        if (state) states.set(key, state);
      }
    };
    const unread = async (counter: Pick<Operation, 'key' | 'shared'>): Promise<void> => {
      try {
        await read(counter);
      } catch (error) {
        // the count is not a number
        failures.set(counter.key, `memcached: ${error instanceof Error ? error.message : error}`);
      }
    };
    await Promise.all(counters.map(unread));
    return forkFrom(new Map([[0, { nowMs, states, failures }]]), { original: this, partOf: () => 0, spend: 'each' });
  }

  health(): BackendHealth {
    return this.#servers.health();
  }

  async close(): Promise<void> {
    this.#servers.close();
  }

  async #runOne(operations: readonly Operation[], { timeoutMs, receipts }: RunOptions): Promise<Replies> {
    const { clock, monotonicMs } = this.#clocks;
    const chargedAtMs = clock();
    this.#lateness.began();
    const startedMs = monotonicMs();
    const stoodBeforeMs = this.#lateness.stoodMs;
    const outcome = await within(timeoutMs, this.#count(operations, timeoutMs)); // never rejects
    const endedMs = monotonicMs();
    const stoodMs = this.#lateness.stoodAtMs(endedMs) - stoodBeforeMs;
    this.#lateness.ended();
    if ('value' in outcome) return receipts ? outcome.value.map((one) => ({ ...one, chargedAtMs })) : outcome.value;
    const reason = `memcached: ${outcome.reason}`;
    const failure: Unavailable = {
      code: 'UNAVAILABLE',
      reason,
      ...(endedMs - startedMs >= timeoutMs && stoodMs * 2 >= timeoutMs && { isOverload: true }),
      ...(isSent(outcome.reason) && { isUnknown: true }),
    };
    return operations.map(() => failure);
  }

  async #count(operations: readonly Operation[], timeoutMs: number): Promise<readonly Decision[]> {
    const [first] = operations;
    if (!first) return [];
    const key = safeKey(first.key);
    if (this.#foreign?.has(first))
      return this.#foreign.count({ key, server: () => this.#findServer(key) }, operations, this.#clocks);
    return this.#countOwn(key, operations, timeoutMs);
  }

  #countOwn(key: string, operations: readonly Operation[], timeoutMs: number): Promise<readonly Decision[]> {
    return new Promise((resolve, reject) => {
      const waiting = { operations, untilMs: this.#clocks.monotonicMs() + timeoutMs, resolve, reject };
      const queue = this.#queues.get(key);
      if (queue) {
        queue.push(waiting);
        return;
      }
      const started = [waiting];
      this.#queues.set(key, started);
      this.#work(key, started);
    });
  }

  /** Processes the queue of a counter, all waiting operations at a time. */
  async #work(key: string, queue: Waiting[]): Promise<void> {
    while (queue.length > 0) {
      const now = this.#clocks.monotonicMs();
      const batch = queue.splice(0).filter(({ untilMs }) => untilMs > now);
      const all = batch.flatMap(({ operations }) => operations);
      try {
        const rest = [...(await this.#stepAll(key, all))];
        for (const { operations, resolve } of batch) resolve(rest.splice(0, operations.length));
      } catch (error) {
        for (const { reject } of batch) reject(error instanceof Error ? error : new Error(String(error)));
      }
    }
    this.#queues.delete(key);
  }

  /** Steps a counter by all operations in order, atomically despite other writers. */
  async #stepAll(key: string, operations: readonly Operation[]): Promise<readonly Decision[]> {
    if (operations.length === 0) return [];
    const { clock, dateClock } = this.#clocks;
    const resetKey = safeKey(`reset|${key}`);
    const needsReset = operations.some(({ kind }) => kind === 'refund');
    const resetAtMs = needsReset ? Number((await this.#findServer(resetKey).get(resetKey))?.value ?? 0) : 0;
    const forgotten = operations.find(({ kind }) => kind === 'forget');
    return swap(this.#findServer(key), key, async (value) => {
      const nowMs = clock();
      const before = value && unpackState(value);
      const { decisions, state, ttlMs } = stepped(operations, before, { nowMs, resetAtMs });
      if (forgotten) {
        const keptS = toExptime(longestMemoryMs(forgotten.limit), dateClock());
        await this.#findServer(resetKey).set(resetKey, Buffer.from(String(nowMs)), keptS);
      }
      if (isSame(before, state) || (!value && ttlMs <= 0)) return { result: decisions }; // only peeks
      return { result: decisions, next: { value: packState(state ?? []), exptime: toExptime(ttlMs, dateClock()) } };
    });
  }

  #findServer(key: string): MemcachedClient {
    const server = this.#servers.of(key);
    if (!server) throw new Error('no server is known yet');
    return server;
  }
}

/** Nothing is sent to a server without a connection. */
const isSent = (reason: string): boolean => !reason.startsWith('no connection') && reason !== 'no server is known yet';

interface StepTimes {
  readonly nowMs: number;
  /** Receipts of charges up to then are void. */
  readonly resetAtMs: number;
}

function stepped(operations: readonly Operation[], before: State | undefined, times: StepTimes) {
  const { nowMs } = times;
  let state = before;
  let ttlMs = 0;
  const decisions = operations.map((operation) => {
    const { limit, kind } = operation;
    const { describe } = algorithmFor(limit);
    const step = runStep(operation, state, times);
    const isTakenBack = kind === 'refund' || kind === 'forget';
    if (kind !== 'peek' && !(kind === 'refund' && !state)) {
      state = kind === 'forget' ? [] : step.state;
      ttlMs = kind === 'forget' ? 0 : step.ttlMs;
    } else ttlMs = step.ttlMs;
    const hits = isTakenBack ? 0 : signedHits(operation);
    const charged = kind === 'charge' ? 'regardless' : kind !== 'peek' && !isTakenBack;
    return describe(limit, step.report ?? step.state, nowMs, { hits, accepted: step.accepted, charged }, operation);
  });
  return { decisions, state, ttlMs };
}

function runStep(operation: Operation, state: State | undefined, { nowMs, resetAtMs }: StepTimes): Step {
  const { kind, limit, hits } = operation;
  const { step, refund } = algorithmFor(limit);
  if (kind === 'refund')
    return refund(limit, state, nowMs, operation.chargedAtMs <= resetAtMs ? 0 : hits, operation.chargedAtMs, operation);
  if (kind === 'forget') return step(limit, undefined, nowMs, 0, false, operation);
  if (kind === 'peek') return step(limit, state, nowMs, hits, hits === 0, operation);
  return step(limit, state, nowMs, signedHits(operation), kind === 'charge' ? 'regardless' : true, operation);
}

const isSame = (one: State | undefined, other: State | undefined): boolean =>
  one !== undefined && other !== undefined && one.length === other.length && one.every((n, at) => n === other[at]);
