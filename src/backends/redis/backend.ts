import { Cluster } from 'ioredis';
import { type Clock, type Monotonic, monotonicMs as processMonotonicMs } from '../../clock.ts';
import type { Eventual } from '../../later.ts';
import type {
  Backend,
  BackendHealth,
  CounterPage,
  Fork,
  InvalidationListener,
  Invalidations,
  Operation,
  Replies,
  RunOptions,
  Settlement,
  Unavailable,
} from '../backend.ts';
import { Breakers } from '../breaker.ts';
import { failedSnapshot, forkFrom, type Snapshot } from '../fork.ts';
import type { CounterKey } from '../key.ts';
import { type Lateness, PUNCTUAL } from '../lateness.ts';
import { scatter } from '../scatter.ts';
import { within } from '../within.ts';
import { type Batch, type BatchRequest, decodeBatch, encodeBatch, type ForeignCounters } from './batch.ts';
import { Batcher } from './batcher.ts';
import type { RedisConnection } from './connect.ts';
import { RedisInvalidations } from './invalidations.ts';
import { reasonOf } from './reason.ts';
import { script } from './script.ts';
import { ScriptCommand } from './script-command.ts';
import { createSlotKeys, type SlotKeys } from './slots.ts';
import { SNAPSHOT_SCRIPT, snapshotFrom } from './snapshot.ts';
import { WriteTurn } from './write-turn.ts';

export interface RedisBackendOptions {
  /** Of a Cluster whose keys do not have their domain as hash tag, the counter. */
  readonly atomic?: Backend['atomic'];
  /** Only for tests: Redis decides on the clock that is given, too, instead of its own. */
  readonly replay?: boolean;
  /** What operators call it; the nodes of a Cluster have their own names. */
  readonly name?: string;
  /** A call that takes longer counts as failed: `Breaker`. */
  readonly slowMs?: number;
  readonly breakers?: Breakers;
  /** Put before every key, as before those of the counters. */
  readonly prefix?: string;
  readonly monotonicMs?: Monotonic;
  /** Counters of other programs beside our own. */
  readonly foreign?: ForeignCounters;
  /** How late this process has lately been, in milliseconds. */
  readonly lateness?: Lateness;
  /** Takes the reason of each call that has no answer. */
  readonly onUnavailable?: (reason: string) => void;
}

/** For how long the number of an instance's last settlement is kept: one that is sent again later is counted again. */
export const SETTLED_TTL_MS = 24 * 3_600_000;

/**
 * Counters in a Redis that any number of instances share, decided on Redis's clock: one script call for all that is
 * asked at a time; on a Cluster one for each slot, side by side, and one write for all calls to a node.
 */
export class RedisBackend implements Backend {
  readonly atomic: Backend['atomic'];
  readonly #redis: RedisConnection;
  readonly #clock: Clock;
  readonly #options: Required<Omit<RedisBackendOptions, 'foreign'>> & Pick<RedisBackendOptions, 'foreign'>;
  readonly #slotKeys: SlotKeys;
  readonly #batchers = new Map<number, Batcher>();
  readonly #inNextTurn: (send: () => void) => void;
  #lastError = 'not connected yet';
  #invalidations: RedisInvalidations | undefined;

  /**
   * @param redis   a connection of `connect`; closed with the backend
   * @param clock   this process's: calendar windows are searched around it, since Redis has no time zones
   */
  constructor(redis: RedisConnection, clock: Clock, options: RedisBackendOptions = {}) {
    const monotonicMs = options.monotonicMs ?? processMonotonicMs;
    const breakers = options.breakers ?? new Breakers(monotonicMs);
    const usual = {
      atomic: 'request',
      replay: false,
      name: 'redis',
      slowMs: 1_000,
      prefix: '',
      onUnavailable: () => {},
      lateness: PUNCTUAL,
    } as const;
    this.#redis = redis;
    this.#clock = clock;
    this.#options = { ...usual, ...options, monotonicMs, breakers };
    this.#slotKeys = createSlotKeys(this.#options.prefix);
    this.atomic = this.#options.atomic;
    const turn = redis instanceof Cluster ? new WriteTurn(redis) : undefined;
    this.#inNextTurn = turn ? (send) => turn.add(send) : setImmediate;
    redis.on('error', (error: Error) => {
      this.#lastError = reasonOf(error);
    });
    redis.on('ready', () => {
      this.#lastError = 'the connection was lost'; // the next one that is missing
    });
  }

  run(operations: readonly Operation[], { spend, timeoutMs, receipts }: RunOptions): Eventual<Replies> {
    if (!this.#isUsable()) return operations.map(() => this.#unavailable(this.#lastError));
    if (!(this.#redis instanceof Cluster))
      return this.#batcherOf(ONE_NODE).run({ operations, spend, receipts }, timeoutMs);
    return scatter(
      operations,
      ({ key }) => this.#slotKeys.slotOf(key), // a call may touch keys of one slot
      (slot, own) => this.#batcherOf(slot).run({ operations: own, spend, receipts }, timeoutMs),
    );
  }

  shardOf({ key }: Operation): string {
    return String(this.#slotIn(key) ?? '');
  }

  async settle({ instance, number, operations }: Settlement, timeoutMs: number): Promise<boolean> {
    const [first] = operations;
    if (!first) return true;
    if (!this.#isUsable()) return false;
    const batch = this.#encode([{ operations, spend: 'each' }], this.#clock());
    const slot = this.#slotIn(first.key);
    const settledKey = this.#slotKeys.name(slot, `settled|${instance}`);
    const counted = this.#call({ ...batch, keys: [...batch.keys, settledKey] }, slot, [number, SETTLED_TTL_MS]);
    return 'value' in (await within(timeoutMs, counted));
  }

  async fork(counters: readonly Pick<Operation, 'key' | 'shared'>[], timeoutMs: number): Promise<Fork> {
    const parts = new Map<number, Pick<Operation, 'key' | 'shared'>[]>();
    const partOf = ({ key }: Pick<Operation, 'key'>): number => this.#slotIn(key) ?? ONE_NODE;
    for (const counter of counters) parts.set(partOf(counter), [...(parts.get(partOf(counter)) ?? []), counter]);
    const read = Array.from(parts, async ([part, own]) => [part, await this.#snapshot(own, timeoutMs)] as const);
    return forkFrom(new Map(await Promise.all(read)), { original: this, partOf });
  }

  async #snapshot(counters: readonly Pick<Operation, 'key' | 'shared'>[], timeoutMs: number): Promise<Snapshot> {
    const keys = [...new Set(counters.map(({ key }) => key))];
    const ownNowMs = this.#clock();
    const failed = (reason: string): Snapshot => failedSnapshot(ownNowMs, keys, `redis: ${reason}`);
    if (!this.#isUsable()) return failed(this.#lastError);
    const reply = await within(timeoutMs, this.#redis.callBuffer('EVAL', SNAPSHOT_SCRIPT, keys.length, ...keys));
    if ('reason' in reply) return failed(reply.reason);
    const shared = new Map(counters.flatMap((one) => (one.shared ? [[one.key, one.shared] as const] : [])));
    const { nowMs, ...snapshot } = snapshotFrom(reply.value, keys, shared);
    return { ...snapshot, nowMs: this.#options.replay || shared.size > 0 ? ownNowMs : nowMs };
  }

  async list(after: string | undefined, count: number): Promise<CounterPage> {
    const [node = '0', cursor = '0'] = after?.split(':') ?? [];
    const nodes = this.#redis instanceof Cluster ? this.#redis.nodes('master') : [this.#redis];
    const server = nodes[Number(node)];
    if (!server) return { keys: [] };
    const pattern = `${this.#options.prefix.replace(/[\\*?[\]]/g, '\\$&')}*`;
    const [next, keys] = await server.scan(cursor, 'MATCH', pattern, 'COUNT', count);
    const following =
      next !== '0' ? `${node}:${next}` : Number(node) + 1 < nodes.length ? `${Number(node) + 1}:0` : undefined;
    // readers leave out others
    return { keys: keys as CounterKey[], ...(following !== undefined && { next: following }) };
  }

  invalidations(listener: InvalidationListener): Invalidations {
    const { prefix, monotonicMs } = this.#options;
    this.#invalidations ??= new RedisInvalidations(this.#redis, { prefix, listener, monotonicMs });
    return this.#invalidations;
  }

  health(): BackendHealth {
    return this.#isUsable() && this.#isWhole() ? { ready: true } : { ready: false, reason: this.#lastError };
  }

  async close(): Promise<void> {
    this.#invalidations?.close();
    this.#redis.disconnect();
    for (const batcher of this.#batchers.values()) batcher.close();
  }

  #unavailable(reason: string): Unavailable {
    this.#options.onUnavailable(reason);
    return { code: 'UNAVAILABLE', reason: `redis: ${reason}` };
  }

  #isUsable(): boolean {
    return this.#redis.status === 'ready';
  }

  #isWhole(): boolean {
    const redis = this.#redis;
    return !(redis instanceof Cluster) || redis.nodes('master').every(({ status }) => status === 'ready');
  }

  #slotIn(key: string): number | undefined {
    return this.#redis instanceof Cluster ? this.#slotKeys.slotOf(key) : undefined;
  }

  #nodeOf(slot: number): string {
    return (this.#redis instanceof Cluster ? this.#redis.slots[slot]?.[0] : undefined) ?? this.#options.name;
  }

  #batcherOf(slot: number): Batcher {
    const known = this.#batchers.get(slot);
    if (known) return known;
    const { breakers, slowMs, monotonicMs, lateness } = this.#options;
    const batcher = new Batcher({
      ...{ slowMs, maxInFlight: MAX_IN_FLIGHT, monotonicMs, lateness },
      unavailable: (reason) => this.#unavailable(reason),
      send: (requests) => this.#send(requests, slot),
      inNextTurn: this.#inNextTurn,
      breaker: () => breakers.of(this.#nodeOf(slot)),
      isAnswer: (error) => (error instanceof Error && error.name === 'ReplyError') || isHalfMoved(error),
    });
    this.#batchers.set(slot, batcher);
    return batcher;
  }

  async #send(requests: readonly BatchRequest[], slot: number): Promise<readonly Replies[]> {
    try {
      return await this.#count(requests, slot);
    } catch (error) {
      if (requests.length === 1 || !isHalfMoved(error)) throw error;
      // a counter by itself can always be found
      return Promise.all(requests.map((request) => this.#countAlone(request, slot)));
    }
  }

  async #countAlone(request: BatchRequest, slot: number): Promise<Replies> {
    try {
      return (await this.#count([request], slot))[0] ?? [];
    } catch (error) {
      return request.operations.map(() => this.#unavailable(reasonOf(error)));
    }
  }

  async #count(requests: readonly BatchRequest[], slot: number): Promise<readonly Replies[]> {
    const batch = this.#encode(requests, this.#clock());
    return decodeBatch(await this.#call(batch, slot), batch);
  }

  #encode(requests: readonly BatchRequest[], nowMs: number): Batch {
    return encodeBatch(
      requests,
      nowMs,
      (key) => this.#slotKeys.name(this.#slotIn(key), `reset|${key}`),
      this.#options.foreign,
    );
  }

  /**
   * @param slot  of its keys; without a Cluster it has no effect
   * @param more  what the script takes after the clock
   */
  async #call(
    { keys, packed, nowMs }: Batch,
    slot: number | undefined,
    more: readonly (string | number)[] = [],
  ): Promise<Buffer> {
    const clockMs = this.#options.replay ? [nowMs] : more.length > 0 ? [''] : [];
    const { sha1, text } = this.#options.foreign?.script ?? script;
    const args = [sha1, String(keys.length), ...keys, packed, ...clockMs.map(String), ...more.map(String)];
    try {
      return bytes(await this.#redis.sendCommand(new ScriptCommand(args, slot)));
    } catch (error) {
      if (!isNoScript(error)) throw error;
      return bytes(await this.#redis.callBuffer('EVAL', text, ...args.slice(1))); // refused before it ran: safe to ask again
    }
  }
}

/** Stands for all slots where one node has them all. */
const ONE_NODE = -1;
/** Calls to a node at a time: while one is counted, the next is gathered. */
const MAX_IN_FLIGHT = 2;

function bytes(reply: unknown): Buffer {
  if (Buffer.isBuffer(reply)) return reply;
  throw new TypeError(`expected the script's packed reply, got ${typeof reply}`);
}

/** No node would count for a call, each naming another: its counters are in a slot of which a part has moved. */
const isHalfMoved = (error: unknown): boolean =>
  error instanceof Error && error.message.startsWith('Too many Cluster redirections');

const isNoScript = (error: unknown): boolean => error instanceof Error && error.message.startsWith('NOSCRIPT');
