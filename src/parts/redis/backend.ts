import slotOf from 'cluster-key-slot';
import { Cluster, type Redis } from 'ioredis';
import { type Clock, type Monotonic, monotonicMs as processMonotonicMs } from '../../base/clock.ts';
import { groupBy } from '../../base/group.ts';
import type { Eventual } from '../../base/later.ts';
import {
  type Backend,
  type BackendHealth,
  type CounterPage,
  type Fork,
  type InvalidationListener,
  type Invalidations,
  type Operation,
  type Recall,
  type Replies,
  type RunOptions,
  type Settlement,
  StoreUnavailable,
  type Unavailable,
} from '../../engine/backends/backend.ts';
import { failedSnapshot, forkFrom, type Snapshot } from '../../engine/backends/fork.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { type Lateness, PUNCTUAL } from '../../engine/backends/lateness.ts';
import { scatter } from '../../engine/backends/scatter.ts';
import { within } from '../../engine/backends/within.ts';
import type { CircuitState } from '../../engine/open/open-backends.ts';
import { type Batch, type BatchRequest, encodeBatch } from './batch.ts';
import { decodeBatch, readClock } from './batch-reply.ts';
import { Batcher } from './batcher.ts';
import { Breaker } from './breaker.ts';
import { type Pipeline, StoreCommand } from './commands.ts';
import { isQuiet, masters, nameNode, type RedisConnection } from './connect.ts';
import { RedisInvalidations } from './invalidations.ts';
import { decodeLone, encodeLone, findLoneSpend } from './lone.ts';
import { createProbe, isOfScripts, isRefusal, NOT_YET, type Probe, type ProbeOptions } from './probe.ts';
import { answered, describeError, isReadOnly, isReply, isUnsent } from './reason.ts';
import { loneScripts, type Script, script } from './script.ts';
import { addReads, type Copied, snapshotFrom } from './snapshot.ts';
import type { RedisUsage } from './usage.ts';
import { findUnplain, listChanges, listWindows, replyFrom } from './window-batches.ts';
import { readTime, WindowCounts } from './window-counts.ts';

interface RedisBackendOptions {
  /** `counter` for a Cluster whose keys do not have their domain as hash tag. */
  readonly atomic?: Backend['atomic'];
  /** Redis decides on the given clock as well, instead of its own. */
  readonly replay?: boolean;
  /** The name for operators; nodes of a Cluster have their own names. */
  readonly name?: string;
  /** The counters are in two Redis, so that health names the one that is not ready. */
  readonly isOneOfTwo?: boolean;
  /** A call that takes longer while this process runs counts as failed: see `Breaker`. */
  readonly slowMs?: number;
  /** Precedes every key, including those of counters. */
  readonly prefix?: string;
  readonly monotonicMs?: Monotonic;
  /** What runs batches. Default: the script of this build. */
  readonly script?: Script;
  /** The recent timer lag of this process. */
  readonly lateness?: Lateness;
  /** Names the usage to which metered operations add. Default: none is counted. */
  readonly usage?: Pick<RedisUsage, 'keysIn'> | undefined;
  /** Called with the reason of each call without an answer. */
  readonly onUnavailable?: (reason: string) => void;
  /** See `Batcher`. */
  readonly onSlow?: (tookMs: number) => void;
  /** Tests whether Redis can count; the backend is ready only while it can. Default: it is not tested. */
  readonly probe?: Pick<ProbeOptions, 'keys' | 'onProblem' | 'onUsable' | 'onLimited'>;
}

/** Windows of one batch that plain commands count: for more of them, one script costs less. */
const MOST_PLAIN_WINDOWS = 2;

/** How long the number of an instance's last settlement is kept: one that is resent later is counted again. */
const SETTLED_TTL_MS = 24 * 3_600_000;

/**
 * Counters in a Redis that any number of instances share, decided on Redis's clock. Requests issued together share one
 * script call; on a Cluster there is one call for each slot, concurrently, with one write for all calls to a node.
 */
export class RedisBackend implements Backend {
  readonly atomic: Backend['atomic'];
  readonly #redis: RedisConnection;
  readonly #clock: Clock;
  readonly #options: Required<Omit<RedisBackendOptions, 'usage' | 'probe'>> & Pick<RedisBackendOptions, 'usage'>;
  readonly #probe: Probe | undefined;
  /** By node: its address as operators write it, `10.0.0.7:6379`. */
  readonly #breakers = new Map<string, Breaker>();
  readonly #slotKeys: SlotKeys;
  readonly #windows: WindowCounts;
  /** By slot; without a Cluster, the one of `ONE_NODE`. */
  readonly #batchers = new Map<number, Batcher>();
  /** The masters with slots, as last reported by a Cluster. */
  #owners: ReadonlySet<string> = new Set();
  /** The nodes of slots, as last found. */
  readonly #nodes = new Map<number, { readonly name: string; readonly node: Redis }>();
  readonly #inNextTurn: (send: () => void) => void;
  #lastError = 'not connected yet';
  /** The run of the server: Redis has another one after each start. */
  #run: string | undefined;
  #hasRestarted = false;
  #invalidations: RedisInvalidations | undefined;
  #listener: InvalidationListener | undefined;
  #recall: Recall = () => undefined;
  /** Minimum lead of each slot's node's clock over the monotonic clock since that clock last stepped forward. */
  readonly #leadsMs = new Map<number, number>();

  /**
   * @param redis   a connection of `connect`; closed with the backend
   * @param clock   this process's: calendar windows are computed around it, since Redis has no time zones
   */
  constructor(redis: RedisConnection, clock: Clock, options: RedisBackendOptions = {}) {
    const monotonicMs = options.monotonicMs ?? processMonotonicMs;
    const defaults = {
      atomic: 'request',
      replay: false,
      name: 'redis',
      isOneOfTwo: false,
      slowMs: SLOW_MS,
      prefix: '',
      onUnavailable: () => {},
      onSlow: () => {},
      script,
      lateness: PUNCTUAL,
    } as const;
    this.#redis = redis;
    this.#clock = clock;
    this.#options = { ...defaults, ...options, monotonicMs };
    this.#slotKeys = createSlotKeys(this.#options.prefix);
    this.atomic = this.#options.atomic;
    this.#inNextTurn = createWriteTurn(redis);
    this.#windows = new WindowCounts(
      (commands, slot) => this.#sendPlain(commands, slot),
      (slot) => this.#nodeTime(slot),
    );
    redis.on('error', (error: Error) => {
      this.#lastError = describeError(error);
    });
    redis.on('ready', () => {
      this.#lastError = 'the connection was lost'; // for the next disconnect
      if (!(redis instanceof Cluster) && !isQuiet(redis)) void this.#checkServer(redis);
    });
    const doubt = (): void => this.#listener?.doubted?.();
    redis.on('close', doubt);
    if (redis instanceof Cluster) {
      redis.on('+node', (node: Redis) => node.on('close', doubt));
      redis.on('refresh', () => {
        this.#owners = new Set(redis.slots.map(([master = '']) => master));
      });
    }
    this.#probe =
      options.probe &&
      createProbe({
        ...options.probe,
        redis,
        run: (all, how) => (this.limitation() === undefined ? this.run(all, how) : this.#runAlone(all, how)),
        testPlain: (key) => this.#testPlain(key),
      });
  }

  run(operations: readonly Operation[], { spend, timeoutMs, longestMs, receipts }: RunOptions): Eventual<Replies> {
    if (!this.#isUsable()) return operations.map(() => this.#unavailable(this.#lastError));
    const runIn = (slot: number, own: readonly Operation[]): Eventual<Replies> =>
      this.#openBatcher(slot).run({ operations: own, spend, receipts }, timeoutMs, longestMs);
    if (!(this.#redis instanceof Cluster)) return runIn(ONE_NODE, operations);
    return scatter(operations, ({ key }) => this.#slotOf(key), runIn); // a call may only use keys of one slot
  }

  isSilent({ key }: Operation, nowMs: number): boolean {
    return this.#batchers.get(this.#slotOf(key))?.isSilent(nowMs) ?? false;
  }

  recallWith(recall: Recall): void {
    this.#recall = recall;
  }

  shardOf({ key }: Operation): string {
    return String(this.#slotOf(key));
  }

  async settle({ instance, number, operations }: Settlement, timeoutMs: number): Promise<boolean> {
    const [first] = operations;
    if (!first) return true;
    if (!this.#isUsable() || this.#probe?.problem() === NOT_YET) return false; // a proxy may divide the keys
    if (this.limitation() !== undefined) {
      const outcome = await within(timeoutMs, this.#countPlainly([{ operations, spend: 'each' }], ONE_NODE));
      return 'value' in outcome || !isUnsent(new Error(outcome.reason)); // what may have been counted is assumed to be
    }
    const batch = this.#encode([{ operations, spend: 'each' }], this.#clock());
    const slot = this.#slotOf(first.key);
    const settledKey = this.#slotKeys.name(slot, `settled|${instance}`);
    const counted = this.#call({ ...batch, keys: [...batch.keys, settledKey] }, slot, [number, SETTLED_TTL_MS]);
    return 'value' in (await within(timeoutMs, counted));
  }

  async fork(counters: readonly Copied[], timeoutMs: number): Promise<Fork> {
    const partOf = ({ key }: Pick<Operation, 'key'>): number => this.#slotOf(key);
    const read = Array.from(
      groupBy(counters, partOf),
      async ([slot, own]) => [slot, await this.#snapshot(own, slot, timeoutMs)] as const,
    );
    return forkFrom(new Map(await Promise.all(read)), { original: this, partOf });
  }

  async #snapshot(counters: readonly Copied[], slot: number, timeoutMs: number): Promise<Snapshot> {
    const ownNowMs = this.#clock();
    const keys = counters.map(({ key }) => key);
    const failed = (reason: string): Snapshot => failedSnapshot(ownNowMs, keys, `redis: ${reason}`);
    const refusal = this.#isUsable() ? this.#findBreaker(slot).refusal : this.#lastError;
    if (refusal !== undefined) return failed(refusal);
    const sent: Promise<unknown>[] = [];
    // one by one, so that a Cluster redirects each
    const add = (name: string, ...args: string[]): void => {
      const reply = Promise.resolve(this.#redis.sendCommand(new StoreCommand(name, args, slot)));
      sent.push(reply.catch((error: unknown) => (isReply(error) ? error : Promise.reject(error))));
    };
    const reads = addReads({ add }, counters);
    const isTold = this.limitation() === undefined;
    if (isTold) add('TIME');
    const reply = await within(timeoutMs, Promise.all(sent));
    if ('reason' in reply) return failed(describeError(reply.reason));
    const isOnClock = this.#options.replay;
    const nowMs = isTold ? readTime(reply.value.at(-1)) : this.#nodeTime(slot);
    const snapshot = snapshotFrom(reply.value, reads, { nowMs, isOnClock });
    return { ...snapshot, nowMs: isOnClock || counters.some(({ shared }) => shared) ? ownNowMs : nowMs };
  }

  async list(after: string | undefined, count: number): Promise<CounterPage> {
    const [node = '0', cursor = '0'] = after?.split(':') ?? [];
    if (!this.#isUsable()) throw new StoreUnavailable(`redis: ${this.#lastError}`);
    if (isQuiet(this.#redis)) throw new StoreUnavailable(`redis: counters cannot be listed: ${this.limitation()}`);
    const nodes = masters(this.#redis);
    const server = nodes[Number(node)];
    if (!server) return { keys: [] };
    const pattern = `${this.#options.prefix.replace(/[\\*?[\]]/g, '\\$&')}*`;
    const [next, keys] = await answered(server.scan(cursor, 'MATCH', pattern, 'COUNT', count));
    const following =
      next !== '0' ? `${node}:${next}` : Number(node) + 1 < nodes.length ? `${Number(node) + 1}:0` : undefined;
    // there may be other keys, which readers skip
    return { keys: keys as CounterKey[], ...(following !== undefined && { next: following }) };
  }

  invalidations(listener: InvalidationListener): Invalidations {
    const { prefix, monotonicMs } = this.#options;
    this.#listener ??= listener;
    this.#invalidations ??= new RedisInvalidations(this.#redis, { prefix, listener, monotonicMs });
    return this.#invalidations;
  }

  health(): BackendHealth {
    const reason = this.#isUsable() ? (this.#findLoss() ?? this.#probe?.problem()) : this.#lastError;
    if (reason === undefined) return { ready: true };
    const { name, isOneOfTwo } = this.#options;
    return { ready: false, reason: isOneOfTwo ? `${name}: ${reason}` : reason };
  }

  limitation(): string | undefined {
    return this.#probe?.limitation();
  }

  /** The circuits to the nodes that have counters: one that was replaced is not called again, and would stay open. */
  circuits(): ReadonlyMap<string, CircuitState> {
    const used = [...this.#breakers].filter(([node]) => !(this.#redis instanceof Cluster) || this.#owners.has(node));
    return new Map(used.map(([node, { state }]) => [node, state]));
  }

  /** The master of a Cluster without a connection: ioredis makes one for the next call, and drops the failed one. */
  #findLoss(): string | undefined {
    if (this.#owners.size === 0) return undefined;
    const connected = masters(this.#redis)
      .filter(({ status }) => status === 'ready')
      .map(nameNode);
    const lost = [...this.#owners].find((owner) => !connected.includes(owner));
    return lost && `no connection to ${lost}`;
  }

  async #testPlain(key: CounterKey): Promise<void> {
    const nodeMs = await this.#windows.test(key, ONE_NODE, this.#clock());
    this.#leadsMs.set(ONE_NODE, nodeMs - this.#options.monotonicMs());
  }

  async close(): Promise<void> {
    this.#probe?.close();
    this.#windows.close();
    this.#invalidations?.close();
    this.#redis.disconnect();
    for (const batcher of this.#batchers.values()) batcher.close();
  }

  #unavailable(reason: string, isOfScript = isOfScripts(reason)): Unavailable {
    // until scripts run, the probe reports what is possible without them
    const isWithoutScripts = this.#probe?.problem() === NOT_YET || this.#probe?.limitation() !== undefined;
    if (!isWithoutScripts || !isOfScript) this.#options.onUnavailable(reason);
    if (isRefusal(reason) && this.#isUsable()) this.#probe?.refused();
    if (isReadOnly(reason)) this.#lastError = reason; // the connection is closed for it
    return { code: 'UNAVAILABLE', reason: `redis: ${reason}` };
  }

  #isUsable(): boolean {
    return this.#redis.status === 'ready';
  }

  #slotOf(key: string): number {
    return this.#redis instanceof Cluster ? slotOf(key) : ONE_NODE;
  }

  #sendPlain(commands: Pipeline, slot: number): Promise<readonly unknown[]> {
    const node = this.#findNode(slot);
    return node ? commands.send(node) : Promise.reject(new Error("Cluster isn't ready"));
  }

  /** The clock of a slot's node, approximately. */
  #nodeTime(slot: number): number {
    return this.#options.monotonicMs() + (this.#leadsMs.get(slot) ?? 0);
  }

  /** The connection to the node that has the slot, if it is known. */
  #findNode(slot: number): Redis | undefined {
    if (!(this.#redis instanceof Cluster)) return this.#redis;
    const name = this.#redis.slots[slot]?.[0];
    const known = this.#nodes.get(slot);
    if (known?.name === name && known?.node.status === 'ready') return known?.node;
    const node = this.#redis.nodes('master').find((one) => nameNode(one) === name);
    if (name !== undefined && node) this.#nodes.set(slot, { name, node });
    return node;
  }

  /** The breaker of the node that has the slot. */
  #findBreaker(slot: number): Breaker {
    const node = (this.#redis instanceof Cluster && this.#redis.slots[slot]?.[0]) || this.#options.name;
    const known = this.#breakers.get(node);
    if (known) return known;
    const fresh = new Breaker(this.#options.monotonicMs);
    this.#breakers.set(node, fresh);
    return fresh;
  }

  #openBatcher(slot: number): Batcher {
    const known = this.#batchers.get(slot);
    if (known) return known;
    const { slowMs, monotonicMs, lateness, onSlow } = this.#options;
    const only = this.#redis instanceof Cluster ? undefined : this.#findBreaker(slot);
    const batcher = new Batcher({
      slowMs,
      maxInFlight: MAX_IN_FLIGHT,
      monotonicMs,
      lateness,
      onSlow,
      recall: (operations) => this.#recall(operations),
      unavailable: (reason) => this.#unavailable(reason),
      send: (requests) => this.#send(requests, slot),
      inNextTurn: this.#inNextTurn,
      breaker: () => only ?? this.#findBreaker(slot),
      isAnswer: (error) => isReply(error) || isHalfMoved(error),
    });
    this.#batchers.set(slot, batcher);
    return batcher;
  }

  async #send(requests: readonly BatchRequest[], slot: number): Promise<readonly Replies[]> {
    if (this.limitation() !== undefined) return this.#countPlainly(requests, slot);
    if (this.#options.replay || !this.#leadsMs.has(slot) || !this.#findNode(slot))
      return this.#runScript(requests, slot);
    const nowMs = this.#nodeTime(slot);
    const isPlain = (operation: Operation): boolean =>
      !this.#needsScript(operation) && this.#windows.isPlain(operation, nowMs);
    const windows = listWindows(requests, MOST_PLAIN_WINDOWS, isPlain);
    if (!windows) return this.#runScript(requests, slot);
    const calledAtMs = this.#options.monotonicMs();
    const counted = await this.#windows.count(windows, slot);
    this.#checkClock(slot, counted.nowMs, calledAtMs);
    return replyFrom(requests, windows, counted, (alone, error) => this.#recount(alone, error, slot));
  }

  /** What needs a script to count an operation, even on a fixed window. */
  #needsScript(operation: Operation): string | undefined {
    if (operation.shared) return 'a counter shared with envoyproxy/ratelimit';
    return this.#options.usage && operation.metered ? 'usage' : undefined;
  }

  /** Counts fixed windows where no script can run. */
  async #countPlainly(requests: readonly BatchRequest[], slot: number): Promise<readonly Replies[]> {
    const needs = (operation: Operation): string | undefined => findUnplain(operation) ?? this.#needsScript(operation);
    const windows = listChanges(requests, needs);
    const calledAtMs = this.#options.monotonicMs();
    const counted = await this.#windows.count(windows, slot, false);
    this.#checkClock(slot, counted.nowMs, calledAtMs);
    const replies = await replyFrom(requests, windows, counted, async (alone, error) =>
      alone.map(() => [this.#unavailable(describeError(error), false)]),
    );
    return requests.map(({ operations }, request) =>
      operations.map((operation, at) => replies[request]?.[at] ?? this.#unsupported(needs(operation), operation)),
    );
  }

  #unsupported(what: string | undefined, { blocks, kind }: Operation): Unavailable {
    const reason = `${what} needs a script: ${this.limitation()}`;
    if (blocks && kind === 'spend') this.#probe?.lacks(reason);
    return { code: 'UNAVAILABLE', reason: `redis: ${reason}` };
  }

  /** Counts spends by a script that a plain command did not count. */
  async #recount(alone: readonly BatchRequest[], error: Error, slot: number): Promise<readonly Replies[]> {
    if (!isForScript(error)) return alone.map(() => [this.#unavailable(describeError(error))]);
    if (!isOverwritten(error)) return this.#runScript(alone, slot);
    this.#listener?.doubted?.();
    const known = alone.map(({ operations }) => this.#recall(operations));
    const unknown = alone.filter((_, at) => !known[at]);
    const counted = unknown.length > 0 ? [...(await this.#runScript(unknown, slot))] : [];
    return known.map((replies) => replies ?? counted.shift() ?? []);
  }

  /** Runs operations by a script even while scripts are believed to be unavailable. */
  async #runAlone(operations: readonly Operation[], { timeoutMs }: RunOptions): Promise<Replies> {
    const outcome = await within(timeoutMs, this.#runScript([{ operations, spend: 'each' }], ONE_NODE));
    if ('value' in outcome) return outcome.value[0] ?? [];
    return operations.map(() => ({ code: 'UNAVAILABLE', reason: `redis: ${describeError(outcome.reason)}` }));
  }

  async #runScript(requests: readonly BatchRequest[], slot: number): Promise<readonly Replies[]> {
    try {
      return await this.#count(requests, slot);
    } catch (error) {
      const parts = isHalfMoved(error) ? requests.map(separate) : [];
      const all = parts.flat();
      if (all.length <= 1 && !all.some(isRefund)) throw error;
      // a single counter can always be found
      const countParts = async (own: readonly BatchRequest[]) =>
        (await Promise.all(own.map((part) => this.#countAlone(part, slot)))).flat();
      return Promise.all(parts.map(countParts));
    }
  }

  async #countAlone(request: BatchRequest, slot: number): Promise<Replies> {
    try {
      const part = isRefund(request) ? await this.#readReset(request, slot) : request;
      return (await this.#count([part], slot))[0] ?? [];
    } catch (error) {
      return request.operations.map(() => this.#unavailable(describeError(error)));
    }
  }

  /** A refund that needs no other key than its counter, since another node may have the time of the last reset. */
  async #readReset(request: BatchRequest, slot: number): Promise<BatchRequest> {
    const readOne = async (one: Operation): Promise<Operation> => {
      const key = this.#slotKeys.name(slot, `reset|${one.key}`);
      const resetAtMs = Number((await this.#redis.sendCommand(new StoreCommand('GET', [key], slot))) ?? 0);
      return one.kind === 'refund' && one.chargedAtMs <= resetAtMs ? { ...one, hits: 0 } : one;
    };
    return { ...request, operations: await Promise.all(request.operations.map(readOne)), areResetsKnown: true };
  }

  async #count(requests: readonly BatchRequest[], slot: number): Promise<readonly Replies[]> {
    const { replay, usage } = this.#options;
    const lone = replay ? undefined : findLoneSpend(requests);
    if (lone) {
      const { operation, limit } = lone;
      const usageKey = operation.metered && usage?.keysIn(this.#slotKeys.tag(slot))[0];
      const keys = usageKey ? [operation.key, usageKey] : [operation.key];
      const args = [String(keys.length), ...keys, encodeLone(lone, this.#clock())];
      return [decodeLone(await this.#callScript(loneScripts[limit.algorithm], args, slot), lone)];
    }
    const batch = this.#encode(requests, this.#clock());
    return decodeBatch(await this.#call(batch, slot), batch);
  }

  /** A server that has been started anew may have lost its counters, and so may one that does not tell. */
  async #checkServer(redis: Redis): Promise<void> {
    const info = await redis.info('server').catch(() => '');
    const run = /^run_id:(\w+)/m.exec(info)?.[1];
    if (run !== undefined && run === (this.#run ?? run) && !this.#hasRestarted) this.#listener?.trusted?.();
    else this.#hasRestarted = true;
    this.#run = run;
  }

  /** Drops remembered refusals if the node's clock has stepped forward, since they end sooner than was promised. */
  #checkClock(slot: number, nodeMs: number, calledAtMs: number): void {
    const leastLeadMs = nodeMs - this.#options.monotonicMs();
    const mostLeadMs = nodeMs - calledAtMs;
    const knownMs = this.#leadsMs.get(slot) ?? Number.POSITIVE_INFINITY;
    const hasStepped = leastLeadMs > knownMs + CLOCK_STEP_MS;
    if (hasStepped) {
      this.#listener?.trusted?.(); // what is held would end too late
      this.#listener?.missed();
    }
    if (hasStepped || mostLeadMs < knownMs) this.#leadsMs.set(slot, mostLeadMs);
  }

  #encode(requests: readonly BatchRequest[], nowMs: number): Batch {
    return encodeBatch(requests, nowMs, {
      resetKeyOf: (key) => this.#slotKeys.name(this.#slotOf(key), `reset|${key}`),
      metersUsage: this.#options.usage !== undefined,
    });
  }

  /** @param settlement  the script's arguments of a settlement */
  #call(batch: Batch, slot: number, settlement: readonly number[] = []): Promise<Buffer> {
    const { replay, usage, script } = this.#options;
    const { keys, packed, isMetered, usageNames } = batch;
    const usageKeys = isMetered && usage ? usage.keysIn(this.#slotKeys.tag(slot)) : [];
    const isPlain = !replay && settlement.length === 0 && usageKeys.length === 0;
    const [number = '', keptMs = ''] = settlement.map(String);
    const more: string[] = isPlain ? [] : [replay ? String(batch.nowMs) : '', number, keptMs];
    if (usageKeys.length > 0) more.push('1', ...usageNames);
    const keyCount = String(keys.length + usageKeys.length);
    return this.#callScript(script, [keyCount, ...keys, ...usageKeys, packed, ...more], slot);
  }

  /** @param args  the number of keys, the keys, the arguments */
  async #callScript({ sha1, text }: Script, args: readonly (string | Buffer)[], slot: number): Promise<Buffer> {
    const calledAtMs = this.#options.monotonicMs();
    const send = (name: string, script: string) =>
      this.#redis.sendCommand(new StoreCommand(name, [script, ...args], slot));
    let reply: unknown;
    try {
      reply = await send('EVALSHA', sha1);
    } catch (error) {
      if (!isNoScript(error)) throw error;
      reply = await send('EVAL', text); // it did not run: safe to retry
    }
    if (!Buffer.isBuffer(reply)) throw new TypeError(`expected the script's packed reply, got ${typeof reply}`);
    this.#checkClock(slot, readClock(reply), calledAtMs);
    return reply;
  }
}

/** Represents all slots if one node has them all. */
const ONE_NODE = -1;
/**
 * Maximum silence of a node before a call counts as failed, whatever the deadlines of callers are. A shorter one would
 * count a pause as a failure; a longer one would make callers of a dead node wait longer.
 */
const SLOW_MS = 250;
/** Maximum number of concurrent calls to a node; while one is counted, the next is collected. */
const MAX_IN_FLIGHT = 2;
/** A node's clock that gains more than this on the monotonic clock has stepped forward. */
const CLOCK_STEP_MS = 100;

/** Reason when every node redirected a call to another one, because its counters are in a slot that is being moved. */
const isHalfMoved = (error: unknown): boolean =>
  error instanceof Error && error.message.startsWith('Too many Cluster redirections');

/** The operations of a request, each alone if they are independent. */
const separate = (request: BatchRequest): readonly BatchRequest[] =>
  request.spend === 'each' ? request.operations.map((one) => ({ ...request, operations: [one] })) : [request];

const isRefund = ({ operations }: BatchRequest): boolean => operations[0]?.kind === 'refund';

/** Whether the script may count after a plain command was refused: it replaces other programs' values, and is redirected. */
const isForScript = ({ message }: Error): boolean =>
  /^(ERR|WRONGTYPE|NOPERM|MOVED|ASK|TRYAGAIN|CLUSTERDOWN) /.test(message);

/** Whether another program's value is in the place of a counter. */
const isOverwritten = ({ message }: Error): boolean => message.startsWith('WRONGTYPE');

const isNoScript = (error: unknown): boolean => error instanceof Error && error.message.startsWith('NOSCRIPT');

/** Makes keys on the node of a counter, with the counters' prefix, since the operator may only allow keys with it. */
type SlotKeys = ReturnType<typeof createSlotKeys>;

function createSlotKeys(prefix: string) {
  const tags = new Map([[ONE_NODE, '']]);
  /** A hash tag of the slot; empty if one node has all slots. */
  const tagOf = (slot: number): string => {
    let tag = tags.get(slot);
    for (let number = 0; tag === undefined; number++) if (slotOf(`${prefix}{${number}}`) === slot) tag = `{${number}}`;
    tags.set(slot, tag);
    return tag;
  };
  return { tag: tagOf, name: (slot: number, name: string): string => `${prefix}${tagOf(slot)}${name}` };
}

/** Returns a function that runs others in the next turn of the event loop, with one write to each node. */
function createWriteTurn(redis: RedisConnection): (send: () => void) => void {
  let due: (() => void)[] = [];
  const sendAll = (): void => {
    const sends = due;
    due = [];
    const streams = masters(redis).map(({ stream }) => stream); // a node's stream may be replaced before its calls are written
    for (const stream of streams) stream?.cork();
    try {
      for (const send of sends) send();
    } finally {
      for (const stream of streams) stream?.uncork();
    }
  };
  return (send) => {
    if (due.push(send) === 1) setImmediate(sendAll);
  };
}
