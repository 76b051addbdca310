import type { Clock, Monotonic } from '../../base/clock.ts';
import type { Eventual } from '../../base/later.ts';
import type { Decision, State } from '../../engine/algorithms/limit.ts';
import type {
  Backend,
  BackendHealth,
  Fork,
  Operation,
  Replies,
  RunOptions,
  Settlement,
  Unavailable,
} from '../../engine/backends/backend.ts';
import { forkFrom } from '../../engine/backends/fork.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { type Lateness, PUNCTUAL } from '../../engine/backends/lateness.ts';
import { packNumbers, unpackState } from '../../engine/backends/packed-state.ts';
import { scatter } from '../../engine/backends/scatter.ts';
import { stepAll } from '../../engine/backends/steps.ts';
import { within } from '../../engine/backends/within.ts';
import { longestMemoryMs } from '../../engine/holds/limits.ts';
import { swap } from './cas.ts';
import { type MemcachedClient, safeKey, toExptime } from './client.ts';
import type { MemcachedServers } from './servers.ts';
import { countInWindow, findWindow, readCount } from './windows.ts';

/** Operations of one request on one counter, and the callbacks for their result. */
interface Waiting {
  readonly operations: readonly Operation[];
  /** Deadline on the monotonic clock. */
  readonly untilMs: number;
  resolve(decisions: readonly Decision[]): void;
  reject(error: Error): void;
}

interface Clocks {
  /** This process's clock. */
  readonly clock: Clock;
  readonly monotonicMs: Monotonic;
  /** Only for tests whose clock differs from the servers': the clock for expiry times. */
  readonly dateClock?: Clock;
}

/**
 * Counters in memcached, which any number of instances share. Each counter is exact by itself. Windows that follow the
 * clock are counts; any other state is read, stepped on this process's clock, and swapped for the new one only if it has
 * not changed meanwhile; otherwise this is repeated. Operations that arrive in the meantime are run together next. The
 * limits of a request are not one step: `spend` has no effect here.
 */
export class MemcachedBackend implements Backend {
  readonly atomic = 'counter';
  readonly #servers: MemcachedServers;
  readonly #clocks: Required<Clocks>;
  readonly #queues = new Map<string, Waiting[]>();
  /** The recent timer lag of this process. */
  readonly #lateness: Lateness;

  constructor(servers: MemcachedServers, clocks: Clocks, lateness: Lateness = PUNCTUAL) {
    this.#servers = servers;
    this.#lateness = lateness;
    this.#clocks = { dateClock: clocks.clock, ...clocks };
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

  async fork(counters: readonly Readable[], timeoutMs: number): Promise<Fork> {
    const nowMs = this.#clocks.clock();
    const states = new Map<CounterKey, State>();
    const failures = new Map<CounterKey, string>();
    const read = async (counter: Readable): Promise<void> => {
      const reply = await within(timeoutMs, this.#read(counter, nowMs));
      if ('reason' in reply) failures.set(counter.key, `memcached: ${reply.reason}`);
      else if (reply.value) states.set(counter.key, reply.value);
    };
    await Promise.all(counters.map(read));
    return forkFrom(new Map([[0, { nowMs, states, failures }]]), { original: this, partOf: () => 0, spend: 'each' });
  }

  async #read(counter: Readable, nowMs: number): Promise<State | undefined> {
    const window = findWindow(counter, { nowMs, dateMs: this.#clocks.dateClock() });
    const key = window?.key ?? safeKey(counter.key);
    const value = (await this.#findServer(key).get(key))?.value;
    if (window && (value || counter.shared)) return [window.startMs, readCount(value)];
    return value && unpackState(value);
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
    const [first] = operations; // all have its counter
    if (!first) return [];
    const decisions: Decision[] = [];
    for (const operation of operations) {
      const nowMs = this.#clocks.clock();
      const window = findWindow(operation, { nowMs, dateMs: this.#clocks.dateClock() });
      if (!window) return this.#countState(safeKey(first.key), operations, timeoutMs);
      const isTakenBack = operation.kind === 'refund' || operation.kind === 'forget';
      const resetAtMs = isTakenBack ? await this.#resetTime([operation], nowMs) : 0;
      const server = this.#findServer(window.key);
      decisions.push(await countInWindow(operation, window, { server, nowMs, resetAtMs }));
    }
    return decisions;
  }

  /** When the counter was reset, as far as operations need it; a reset is noted. */
  async #resetTime(operations: readonly Operation[], nowMs: number): Promise<number> {
    const forgotten = operations.find(({ kind }) => kind === 'forget');
    const concerned = forgotten ?? operations.find(({ kind }) => kind === 'refund');
    if (!concerned) return 0;
    const key = safeKey(`reset|${safeKey(concerned.key)}`);
    const server = this.#findServer(key);
    const resetAtMs = Number((await server.get(key))?.value ?? 0);
    if (!forgotten) return resetAtMs;
    const keptS = toExptime(longestMemoryMs(forgotten.limit), this.#clocks.dateClock());
    await server.set(key, { value: Buffer.from(String(nowMs)), exptime: keptS });
    return resetAtMs;
  }

  #countState(key: string, operations: readonly Operation[], timeoutMs: number): Promise<readonly Decision[]> {
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
    const resetAtMs = await this.#resetTime(operations, clock());
    return swap(this.#findServer(key), key, async (value) => {
      const before = value && unpackState(value);
      const { decisions, state, ttlMs } = stepAll(operations, before, { nowMs: clock(), resetAtMs });
      if (isSame(before, state) || (!value && ttlMs <= 0)) return { result: decisions }; // only peeks
      return { result: decisions, next: { value: packNumbers(state ?? []), exptime: toExptime(ttlMs, dateClock()) } };
    });
  }

  #findServer(key: string): MemcachedClient {
    const server = this.#servers.of(key);
    if (!server) throw new Error('no server is known yet');
    return server;
  }
}

/** What is known of a counter that is only read. */
type Readable = Pick<Operation, 'key' | 'limit' | 'shared'>;

/** Nothing is sent to a server without a connection. */
const isSent = (reason: string): boolean => !reason.startsWith('no connection') && reason !== 'no server is known yet';

const isSame = (one: State | undefined, other: State | undefined): boolean =>
  one !== undefined && other !== undefined && one.length === other.length && one.every((n, at) => n === other[at]);
