import { algorithmFor } from '../../algorithms/index.ts';
import {
  capacityOf,
  type Decision,
  longestMemoryMs,
  MAX_COUNT,
  type State,
  type Step,
} from '../../algorithms/limit.ts';
import type { Clock, Monotonic } from '../../clock.ts';
import {
  type Backend,
  type BackendHealth,
  type Operation,
  type Replies,
  type RunOptions,
  type Settlement,
  signedHits,
  type Unavailable,
} from '../backend.ts';
import type { SharedWindow } from '../key.ts';
import { scatter } from '../scatter.ts';
import { describeShared } from '../shared-counters.ts';
import { within } from '../within.ts';
import type { MemcachedClient } from './client.ts';
import { safeKey } from './key.ts';
import type { MemcachedServers } from './servers.ts';
import { packState, unpackState } from './state.ts';

/** Operations of one request on one counter, and what they come to. */
interface Waiting {
  readonly operations: readonly Operation[];
  /** On the monotonic clock: nobody waits any longer then. */
  readonly untilMs: number;
  resolve(decisions: readonly Decision[]): void;
  reject(error: Error): void;
}

export interface Clocks {
  /** This process's. */
  readonly clock: Clock;
  readonly monotonicMs: Monotonic;
  /** Only for tests whose clock is not that of the servers: when those may forget what they hold. */
  readonly dateClock?: Clock;
}

/** How often a counter that others keep changing is tried again before its operations are given up. */
const MAX_TRIES = 100;

/**
 * Counters in memcached, which any number of instances share. Each counter is exact by itself: its state is read, stepped on this
 * process's clock, and swapped for the new one only if nobody has changed it meanwhile, else once more. Operations that come while that is
 * in progress go together with the next. The limits of a request are not one step: `spend` has no meaning here.
 *
 * Counters that envoyproxy/ratelimit shares are added to at once, and judged by what came of it.
 */
export class MemcachedBackend implements Backend {
  readonly atomic = 'counter';
  readonly #servers: MemcachedServers;
  readonly #clocks: Required<Clocks>;
  readonly #queues = new Map<string, Waiting[]>();
  /** How late this process has lately been. */
  readonly #latenessMs: () => number;

  constructor(servers: MemcachedServers, clocks: Clocks, latenessMs: () => number = () => 0) {
    this.#servers = servers;
    this.#latenessMs = latenessMs;
    this.#clocks = { dateClock: clocks.clock, ...clocks };
  }

  run(operations: readonly Operation[], how: RunOptions): Replies | Promise<Replies> {
    return scatter(
      operations,
      ({ key }) => key,
      (_, own) => this.#runOne(own, how),
    );
  }

  shardOf({ key }: Operation): string {
    return key;
  }

  /** A settlement that may have been counted is taken for counted: there is nothing in memcached that would tell. */
  async settle({ operations }: Settlement, timeoutMs: number): Promise<boolean> {
    const outcome = await within(timeoutMs, this.#count(operations, timeoutMs));
    return 'value' in outcome || isSent(outcome.reason);
  }

  health(): BackendHealth {
    return this.#servers.health();
  }

  async close(): Promise<void> {
    this.#servers.close();
  }

  async #runOne(operations: readonly Operation[], { timeoutMs, receipts }: RunOptions): Promise<Replies> {
    const chargedAtMs = this.#clocks.clock();
    const outcome = await within(timeoutMs, this.#count(operations, timeoutMs));
    if ('value' in outcome) return receipts ? outcome.value.map((one) => ({ ...one, chargedAtMs })) : outcome.value;
    const reason = `memcached: ${outcome.reason}`;
    const isLate = this.#latenessMs() >= timeoutMs / 2;
    return operations.map((): Unavailable => ({ code: 'UNAVAILABLE', reason, ...(isLate && { isProcessLate: true }) }));
  }

  async #count(operations: readonly Operation[], timeoutMs: number): Promise<readonly Decision[]> {
    const [first] = operations;
    if (!first) return [];
    const key = safeKey(first.key);
    if (first.shared) return addAll(() => this.#serverOf(key), key, operations, first.shared, this.#clocks);
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

  /** Works off what waits for a counter, everything that has come at a time. */
  async #work(key: string, queue: Waiting[]): Promise<void> {
    while (queue.length > 0) {
      const now = this.#clocks.monotonicMs();
      const batch = queue.splice(0).filter(({ untilMs }) => untilMs > now);
      const all = batch.flatMap(({ operations }) => operations);
      try {
        const rest = [...(await stepAll((name) => this.#serverOf(name), key, all, this.#clocks))];
        for (const { operations, resolve } of batch) resolve(rest.splice(0, operations.length));
      } catch (error) {
        for (const { reject } of batch) reject(error instanceof Error ? error : new Error(String(error)));
      }
    }
    this.#queues.delete(key);
  }

  #serverOf(key: string): MemcachedClient {
    const server = this.#servers.of(key);
    if (!server) throw new Error('no server is known yet');
    return server;
  }
}

/** Nothing is sent to a server that there is no connection to. */
const isSent = (reason: string): boolean => !reason.startsWith('no connection') && reason !== 'no server is known yet';

/** Steps a counter by all operations in order, as if nobody else were there; again, if somebody was. */
async function stepAll(
  serverOf: (key: string) => MemcachedClient,
  key: string,
  operations: readonly Operation[],
  { clock, dateClock }: Required<Clocks>,
): Promise<readonly Decision[]> {
  if (operations.length === 0) return [];
  const server = serverOf(key);
  const resetKey = safeKey(`reset|${key}`);
  const needsReset = operations.some(({ kind }) => kind === 'refund');
  const resetAtMs = needsReset ? Number((await serverOf(resetKey).get(resetKey))?.value ?? 0) : 0;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const item = await server.get(key);
    const nowMs = clock();
    const before = item && unpackState(item.value);
    const { decisions, state, ttlMs } = stepped(operations, before, nowMs, resetAtMs);
    const forgotten = operations.find(({ kind }) => kind === 'forget');
    if (forgotten) {
      const keptS = exptimeOf(longestMemoryMs(forgotten.limit), dateClock());
      await serverOf(resetKey).set(resetKey, Buffer.from(String(nowMs)), keptS);
    }
    if (isSame(before, state) || (!item && ttlMs <= 0)) return decisions; // only looks
    const value = packState(state ?? []);
    const kept = item
      ? await server.cas(key, value, exptimeOf(ttlMs, dateClock()), item.cas)
      : await server.add(key, value, exptimeOf(ttlMs, dateClock()));
    if (kept === 'STORED') return decisions;
  }
  throw new Error(`the counter was changed by others ${MAX_TRIES} times in a row`);
}

function stepped(operations: readonly Operation[], before: State | undefined, nowMs: number, resetAtMs: number) {
  let state = before;
  let ttlMs = 0;
  const decisions = operations.map((operation) => {
    const { limit, kind } = operation;
    const { describe } = algorithmFor(limit);
    const step = stepOf(operation, state, nowMs, resetAtMs);
    const isTakenBack = kind === 'refund' || kind === 'forget';
    if (kind !== 'peek' && !(kind === 'refund' && !state)) {
      state = kind === 'forget' ? [] : step.state;
      ttlMs = kind === 'forget' ? 0 : step.ttlMs;
    } else ttlMs = step.ttlMs;
    const hits = isTakenBack ? 0 : signedHits(operation);
    const charged = kind !== 'peek' && !isTakenBack;
    return describe(limit, step.report ?? step.state, nowMs, { hits, accepted: step.accepted, charged });
  });
  return { decisions, state, ttlMs };
}

function stepOf(operation: Operation, state: State | undefined, nowMs: number, resetAtMs: number): Step {
  const { kind, limit, hits } = operation;
  const { step, refund } = algorithmFor(limit);
  if (kind === 'refund')
    return refund(limit, state, nowMs, operation.chargedAtMs <= resetAtMs ? 0 : hits, operation.chargedAtMs);
  if (kind === 'forget') return step(limit, undefined, nowMs, 0, false);
  if (kind === 'peek') return step(limit, state, nowMs, hits, hits === 0);
  return step(limit, state, nowMs, signedHits(operation), kind === 'charge' ? 'regardless' : true);
}

const isSame = (one: State | undefined, other: State | undefined): boolean =>
  one !== undefined && other !== undefined && one.length === other.length && one.every((n, at) => n === other[at]);

/** Adds hits, one operation after the other, to a decimal count that others add to as well. */
async function addAll(
  server: () => MemcachedClient,
  key: string,
  operations: readonly Operation[],
  shared: SharedWindow,
  { clock, dateClock }: Required<Clocks>,
): Promise<readonly Decision[]> {
  const decisions: Decision[] = [];
  for (const operation of operations) {
    const { limit, kind } = operation;
    const count = kind === 'refund' ? -operation.hits : kind === 'peek' ? 0 : signedHits(operation);
    const nowMs = clock();
    if (kind === 'forget') await server().delete(key);
    const exptime = exptimeOf(shared.ttlMs, dateClock());
    const counted = kind === 'forget' ? 0 : Math.min(await added(server(), key, count, exptime), MAX_COUNT);
    const accepted = count < 0 || counted + (kind === 'peek' ? operation.hits : 0) <= capacityOf(limit);
    decisions.push(describeShared(limit, shared, [counted], nowMs, { hits: count, accepted, charged: true }));
  }
  return decisions;
}

/** The count that hits leave. A counter that comes into being between two commands is seen by the third. */
async function added(server: MemcachedClient, key: string, hits: number, exptime: number): Promise<number> {
  if (hits === 0) return countIn((await server.get(key))?.value);
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const count = await server.change(key, hits);
    if (count !== undefined) return count;
    if (hits < 0) return 0;
    if ((await server.add(key, Buffer.from(String(hits)), exptime)) === 'STORED') return hits;
  }
  throw new Error(`the counter came and went ${MAX_TRIES} times in a row`);
}

function countIn(value: Buffer | undefined): number {
  const text = value?.toString('latin1').trim() ?? '0';
  if (!/^\d+$/.test(text)) throw new Error('the counter is no number');
  return Number(text);
}

/** The longest time that memcached takes for one; what is longer, it takes for a date. */
const MAX_SPAN_S = 30 * 24 * 3600;
/** The last date that it knows, in 2038. */
const MAX_DATE_S = 2 ** 31 - 1;

/**
 * By how much memcached's clock may be behind: it is read about once a second, in whole seconds, and goes on by two when a reading just
 * misses one. What is to be kept for a second could else be gone at once.
 */
const CLOCK_LAG_S = 2;

/** When memcached may forget a counter: whole seconds, from now or since the epoch; at once where nothing is left to keep. */
function exptimeOf(ttlMs: number, nowMs: number): number {
  if (ttlMs <= 0) return -1;
  const seconds = Math.ceil(ttlMs / 1000) + CLOCK_LAG_S;
  return seconds <= MAX_SPAN_S ? seconds : Math.min(Math.ceil(nowMs / 1000) + seconds, MAX_DATE_S);
}
