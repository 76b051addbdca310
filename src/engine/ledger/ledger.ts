import type { Clock, Monotonic } from '../../base/clock.ts';
import { after, type Eventual } from '../../base/later.ts';
import { hasHolders, isDivisible, type Limit, nominalCapacity } from '../algorithms/index.ts';
import type { LimitPolicy, State, StoreFailurePolicy } from '../algorithms/limit.ts';
import {
  type Backend,
  type BackendHealth,
  type CounterPage,
  type InvalidationListener,
  type Invalidations,
  type Operation,
  type Replies,
  type Reply,
  type RunOptions,
  standsAlone,
  type Unavailable,
} from '../backends/backend.ts';
import type { Counter, CounterKey } from '../backends/key.ts';
import { scatter } from '../backends/scatter.ts';
import { type Debit, debitOf, type Entries, type LedgerEntry, Receipt } from './debit.ts';
import { Debts, type DebtsOptions, isBySecond, RETRY_MS } from './debts.ts';
import { isLeased, Leases, type LeasesOptions } from './lease.ts';
import { PendingCommits } from './pending-commits.ts';
import { Refusals } from './refusals.ts';

export interface Backends {
  readonly main: Backend;
  /** Holds the counters of limits per second. */
  readonly perSecond?: Backend | undefined;
}

export interface LedgerOptions {
  readonly clock: Clock;
  readonly monotonicMs: Monotonic;
  /** Identifies this process to the backends; differs after each start. */
  readonly instance: string;
  /** Approximate memory for remembered refusals; 0: none are remembered. */
  readonly denyCacheBytes: number;
  /** Absent: nothing is leased. */
  readonly leases?: { readonly maxLeases: number; readonly idleMs: number } | undefined;
  /** Absent: hits that the backends cannot count get no answer. */
  readonly local?: Pick<DebtsOptions, 'maxCounters' | 'maxBytes' | 'instances'> | undefined;
  /** Calls the function repeatedly, until the returned function is called. */
  readonly every: (intervalMs: number, run: () => void) => () => void;
}

/** Runs a backend call under observation. */
export type Trace = (run: () => Eventual<Replies>) => Eventual<Replies>;

/** The initial parts of a copy, in place of those that the options describe. */
interface Copied {
  readonly refusals: Refusals | undefined;
  leases(run: LeasesOptions['run']): Leases | undefined;
  debts(backendOf: DebtsOptions['backendOf']): Debts | undefined;
}

/** A ledger that continues from copies of some counters. */
export interface LedgerFork {
  readonly ledger: Ledger;
  /** The clock used to decide the debit. */
  nowMs(debit: Pick<Debit, 'key' | 'limit'>): number;
  /** The state of the backend's counter in the copy; undefined: it is new, or could not be read. */
  stateOf(debit: Pick<Debit, 'key' | 'limit'>): State | undefined;
  /** Why the backend's counter could not be read; undefined: it was. */
  failureOf(debit: Pick<Debit, 'key' | 'limit'>): string | undefined;
}

/** The context of a request in flight. */
interface Asking {
  readonly ledger: Ledger;
  readonly request: readonly Debit[];
  readonly how: RunOptions;
  readonly calledAtMs: number;
}

/** The interval at which debts are settled while there are any. */
const SETTLE_INTERVAL_MS = 100;
/** Approximate memory for remembered refusals that only answer what the backends cannot count. */
const RECALLED_BYTES = 4 * 1024 * 1024;
/** How long a refund or a `forget` may take. */
const OPERATION_TIMEOUT_MS = 1_000;

/**
 * Decides where each hit is answered: from a lease, from a remembered refusal, by a backend, or by the limit's failure
 * policy. Owns all leases, remembered refusals and local debts. Answers that need no waiting come without a promise.
 */
export class Ledger {
  /** The deny cache; undefined: it is off. */
  readonly refusals: Refusals | undefined;
  readonly leases: Leases | undefined;
  /** Undefined: the backend is always available. */
  readonly pendingCommits: PendingCommits | undefined;
  readonly #backends: Backends;
  readonly #debts: Debts | undefined;
  /** What the deny cache remembers, or less. Undefined: the backend is always available. */
  readonly #remembered: Refusals | undefined;
  readonly #options: LedgerOptions;
  readonly #invalidations = new Map<Backend, Invalidations>();
  readonly #stops: (() => void)[] = [];
  #trace: Trace | undefined;

  constructor(backends: Backends, options: LedgerOptions, copied?: Copied) {
    const { monotonicMs, denyCacheBytes, leases, local, every } = options;
    this.#backends = backends;
    this.#options = options;
    if (copied) {
      this.#remembered = copied.refusals;
      if (denyCacheBytes > 0) this.refusals = copied.refusals;
      this.leases = copied.leases((operation, how) => this.#runOne(operation, how));
      this.#debts = copied.debts((debit) => this.#backendOf(debit));
      return;
    }
    const isLive = (): boolean => this.#all().every((one) => this.#invalidations.get(one)?.isLive() ?? false);
    const maxBytes = denyCacheBytes > 0 ? denyCacheBytes : RECALLED_BYTES;
    if (denyCacheBytes > 0 || local) this.#remembered = new Refusals({ monotonicMs, maxBytes, isLive });
    if (denyCacheBytes > 0) this.refusals = this.#remembered;
    if (leases) {
      const run = (operation: Operation, how: RunOptions) => this.#runOne(operation, how);
      this.leases = new Leases({ monotonicMs, ...leases, run, isLive });
      this.#stops.push(every(leases.idleMs, () => this.leases?.giveBackIdle()));
    }
    if (this.refusals || this.leases) this.#listen();
    if (local) {
      const debts = new Debts({ ...options, ...local, backendOf: (debit) => this.#backendOf(debit) });
      const commits = new PendingCommits({ monotonicMs, run: (operations, how) => this.#run(operations, how) });
      this.#debts = debts;
      this.pendingCommits = commits;
      this.#stops.push(
        every(SETTLE_INTERVAL_MS, () => {
          void debts.settle();
          void commits.send();
        }),
      );
    }
  }

  /** The scope of an atomic step. */
  get atomic(): Backend['atomic'] {
    return this.#backends.perSecond ? 'counter' : this.#backends.main.atomic;
  }

  /** Runs all later backend calls inside `trace`. */
  traceWith(trace: Trace): void {
    this.#trace = trace;
  }

  /** Answers one request's debits, in their order; never rejects. */
  debit(request: readonly Debit[], how: RunOptions): Eventual<Entries> {
    const known = this.refusals || this.leases ? this.#knownOf(request, how) : undefined;
    if (!how.receipts && known?.every(isDefined)) return known;
    const calledAtMs = this.#remembered ? this.#options.monotonicMs() : 0;
    const replies = known ? this.#gather(request, known, how) : this.#ask(request, how);
    return after(replies, Ledger.#concluded, { ledger: this, request, how, calledAtMs });
  }

  static #concluded(this: void, replies: Entries, { ledger, request, how, calledAtMs }: Asking): Entries {
    return ledger.#conclude(request, replies, how, calledAtMs);
  }

  /** Takes the hits of a receipt back, once. */
  async refund(receipt: Receipt): Promise<void> {
    if (!receipt.redeem()) return;
    if (receipt.isLocal) this.#debts?.refund(receipt);
    else await this.#runOne(receipt.refund, { spend: 'each', timeoutMs: OPERATION_TIMEOUT_MS });
  }

  /**
   * Resets a counter, with its leases, remembered refusals and debts, on every instance.
   *
   * @returns the reason if the backend could not; its counter is unchanged then
   */
  async forget(counter: Counter, limit: Limit, policy: LimitPolicy = {}): Promise<Unavailable | undefined> {
    const debit = debitOf(counter, { limit, policy }, 0, false);
    await this.#debts?.forget(debit);
    this.pendingCommits?.drop(counter.key);
    this.leases?.drop(counter.key);
    this.#remembered?.changed(counter.key);
    const reply = await this.#runOne({ ...debit, kind: 'forget' }, { spend: 'each', timeoutMs: OPERATION_TIMEOUT_MS });
    this.#remembered?.changed(counter.key);
    this.#invalidations.get(this.#backendOf(debit))?.publish('forgotten', counter.key);
    return reply.code === 'UNAVAILABLE' ? reply : undefined;
  }

  /**
   * Copies everything that determines these debits: counters, leases, remembered refusals and local counts. The copy
   * answers as this ledger would now; nothing here is changed.
   */
  async fork(request: readonly Debit[], timeoutMs: number): Promise<LedgerFork> {
    const { main, perSecond } = this.#backends;
    const forkOf = (backend: Backend) =>
      backend.fork(
        request.filter((debit) => this.#backendOf(debit) === backend),
        timeoutMs,
      );
    const [ofMain, ofPerSecond] = await Promise.all([forkOf(main), perSecond && forkOf(perSecond)]);
    const keys = request.map(({ key }) => key);
    const copied: Copied = {
      refusals: this.#remembered?.copyOf(keys),
      leases: (run) => this.leases?.copyOf(keys, run),
      debts: (backendOf) => this.#debts?.copyOf(request, backendOf),
    };
    const ledger = new Ledger({ main: ofMain.backend, perSecond: ofPerSecond?.backend }, this.#options, copied);
    const forkFor = (debit: Pick<Debit, 'limit'>) =>
      this.#backendOf(debit) === main ? ofMain : (ofPerSecond ?? ofMain);
    return {
      ledger,
      nowMs: (debit) => forkFor(debit).nowMs(debit.key),
      stateOf: (debit) => forkFor(debit).stateOf(debit.key),
      failureOf: (debit) => forkFor(debit).failureOf(debit.key),
    };
  }

  /**
   * Lists the counters of each backend in turn: see `Backend.list`.
   *
   * @returns undefined  the backend cannot list
   */
  async list(after: string | undefined, count: number): Promise<CounterPage | undefined> {
    const at = Number(after?.split('/')[0] ?? 0);
    const own = after?.slice(after.indexOf('/') + 1);
    const backends = this.#all();
    const page = await backends[at]?.list?.(own === '' ? undefined : own, count);
    if (!page) return undefined;
    const next = page.next !== undefined ? `${at}/${page.next}` : at + 1 < backends.length ? `${at + 1}/` : undefined;
    return { keys: page.keys, ...(next !== undefined && { next }) };
  }

  /** Drops this process's state of a counter that was reset, for stores that do not publish resets. */
  forgetLocally(key: CounterKey): void {
    this.leases?.drop(key);
    this.#remembered?.changed(key);
    this.#debts?.drop(key);
    this.pendingCommits?.drop(key);
  }

  health(): BackendHealth {
    return (
      this.#all()
        .map((backend) => backend.health())
        .find(({ ready }) => !ready) ?? { ready: true }
    );
  }

  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
    await Promise.all([this.leases?.close(), this.#debts?.close(), this.pendingCommits?.close()]);
    await Promise.all(this.#all().map((backend) => backend.close()));
  }

  #all(): readonly Backend[] {
    const { main, perSecond } = this.#backends;
    return perSecond ? [main, perSecond] : [main];
  }

  #backendOf(debit: Pick<Debit, 'limit'>): Backend {
    const { main, perSecond } = this.#backends;
    return perSecond && isBySecond(debit) ? perSecond : main;
  }

  #listen(): void {
    const listener: InvalidationListener = {
      changed: (key) => this.#remembered?.changed(key),
      forgotten: (key) => {
        this.#remembered?.changed(key);
        this.leases?.drop(key);
        this.#debts?.drop(key);
        this.pendingCommits?.drop(key);
      },
      missed: () => this.#remembered?.clear(),
    };
    for (const backend of this.#all()) {
      const invalidations = backend.invalidations?.(listener);
      if (invalidations) this.#invalidations.set(backend, invalidations);
    }
  }

  /** The answers from memory; undefined: there are none. */
  #knownOf(request: readonly Debit[], { spend }: RunOptions): readonly (LedgerEntry | undefined)[] | undefined {
    let known: (LedgerEntry | undefined)[] | undefined;
    for (let at = 0; at < request.length; at++) {
      const debit = request[at] as Debit; // in range
      const mayLease = spend === 'each' && isLeased(debit) && this.leases !== undefined;
      const decision = (mayLease ? this.leases?.spend(debit) : undefined) ?? this.refusals?.find(debit);
      if (!mayLease && decision === undefined) continue;
      known ??= new Array<LedgerEntry | undefined>(request.length).fill(undefined);
      known[at] = decision;
    }
    return known;
  }

  /** Requests the remaining answers. If a set is known to be refused, its counters are only peeked at. */
  #gather(request: readonly Debit[], known: readonly (LedgerEntry | undefined)[], how: RunOptions): Eventual<Entries> {
    const isRefused = how.spend !== 'each' && known.some((decision, at) => decision && request[at]?.blocks);
    const requested = isRefused ? request.map(peekOf) : request;
    const sourceOf = (debit: Debit, at: number) =>
      known[at] ? 'memory' : how.spend === 'each' && isLeased(debit) && this.leases ? 'leases' : 'backends';
    return scatter(requested, sourceOf, (source, debits, at): Eventual<Entries> => {
      if (source === 'memory') return at.flatMap((place) => known[place] ?? []);
      if (source === 'backends') return this.#ask(debits, how);
      return Promise.all(debits.map((debit) => this.leases?.answer(debit, how.timeoutMs) ?? noLeases));
    });
  }

  #runOne(operation: Operation, how: RunOptions): Eventual<Reply> {
    return after(this.#ask([operation], how), ([reply = noReply]) => reply);
  }

  /**
   * Runs operations on the backends of their counters. Holders of cached refusals are notified of changes that may have
   * made room.
   */
  #ask(operations: readonly Operation[], how: RunOptions): Eventual<Replies> {
    if (this.#debts && how.timeoutMs <= 0) return operations.map(() => noTime);
    const isNoted = (this.#invalidations.size > 0 || this.#remembered !== undefined) && operations.some(mayMakeRoom);
    if (isNoted) this.#noteChanges(operations, false);
    const replies = this.#trace ? this.#trace(() => this.#run(operations, how)) : this.#run(operations, how);
    if (!isNoted) return replies;
    return after(replies, (all) => {
      this.#noteChanges(operations, true);
      return all;
    });
  }

  #run(operations: readonly Operation[], how: RunOptions): Eventual<Replies> {
    if (!this.#backends.perSecond) return this.#backends.main.run(operations, how);
    return scatter(
      operations,
      (operation) => this.#backendOf(operation),
      (backend, own) => backend.run(own, how),
    );
  }

  #noteChanges(operations: readonly Operation[], isDone: boolean): void {
    for (const operation of operations) {
      if (!mayMakeRoom(operation)) continue;
      this.#remembered?.changed(operation.key);
      if (isDone) this.#invalidations.get(this.#backendOf(operation))?.publish('changed', operation.key);
    }
  }

  #conclude(request: readonly Debit[], replies: Entries, how: RunOptions, calledAtMs: number): Entries {
    let decided: Entries = replies;
    if (!areAllOk(replies)) {
      if (this.#remembered) this.#remember(request, replies, how, calledAtMs);
      if (this.#debts !== undefined && replies.some(isUnavailable)) {
        this.pendingCommits?.keep(request, replies);
        decided = this.#byPolicy(request, replies, how);
      }
    }
    if (!how.receipts) return decided;
    return decided.map((reply, at) => (isUnknown(replies[at]) ? reply : withReceipt(reply, request[at])));
  }

  /** If a request uses a counter more than once, its own hits may cause the refusal, which is then not remembered. */
  #remember(request: readonly Debit[], replies: Entries, { spend }: RunOptions, calledAtMs: number): void {
    const isPeeked = spend !== 'each' && replies.some((reply, at) => isKnown(reply) && request[at]?.blocks);
    for (let at = 0; at < replies.length; at++) {
      const reply = replies[at] as LedgerEntry | Unavailable; // in range
      if (reply.code !== 'OVER_LIMIT' || isKnown(reply)) continue;
      const debit = request[at];
      if (!debit || request.some((other) => other !== debit && other.key === debit.key)) continue;
      const counted = isPeeked ? peekOf(debit) : debit;
      // a refusal is charged with spare_others, too
      this.#remembered?.remember(counted, reply, !isPeeked && spend !== 'all_or_nothing', calledAtMs);
    }
  }

  /** Answers by the policy of each limit; if a limit that failed has none, the request has no answer. */
  #byPolicy(request: readonly Debit[], asked: Entries, { spend }: RunOptions): Entries {
    const replies = asked.map((reply, at) => this.#recalled(request[at], reply) ?? reply);
    if (request.some((debit, at) => isUnavailable(replies[at]) && !policyFor(debit, replies[at]))) return replies;
    const isRefused =
      spend !== 'each' &&
      request.some((debit, at) => {
        const reply = replies[at];
        const isDenied = policyFor(debit, reply) === 'deny' && debit.kind !== 'give_back';
        return debit.blocks && (isDenied || reply?.code === 'OVER_LIMIT');
      });
    const answered = scatter(
      request,
      (debit, at) => policyFor(debit, replies[at]),
      (policy, debits, at) => {
        if (policy === undefined) return at.flatMap((place) => replies[place] ?? []);
        const mayBeCounted = (one: number): boolean => isUnknown(replies[at[one] ?? 0]);
        if (policy === 'local') return this.#debts?.count(debits, spend, isRefused, mayBeCounted) ?? [];
        return debits.map((debit, one) => this.#answerBy(policy, debit, isRefused || mayBeCounted(one)));
      },
    );
    return 'then' in answered ? replies : answered; // nothing here is asynchronous
  }

  /** A refusal that is known without the backend, of a debit that this process counts by itself. */
  #recalled(debit: Debit | undefined, reply: Reply): LedgerEntry | undefined {
    if (!debit || policyFor(debit, reply) !== 'local') return undefined;
    const known = this.#remembered?.recall(debit);
    return known && { ...known, degraded: 'local' };
  }

  /** @param isDone  hits that the debit gives back need not be kept for the backend */
  #answerBy(policy: 'allow' | 'deny', debit: Debit, isDone: boolean): LedgerEntry {
    if (debit.kind !== 'give_back') return answerOf[policy](debit);
    const isKept = !hasHolders(debit.limit); // slots that are not released in time expire
    if (!isDone && isKept) this.#debts?.giveBack(debit, false);
    return { ...answerOf.allow(debit), degraded: policy };
  }
}

/** Whether a remembered refusal may be outdated afterwards. */
const mayMakeRoom = ({ kind, limit }: Operation): boolean =>
  (kind === 'give_back' || kind === 'refund') && !hasHolders(limit); // else none is remembered

/** The operation on a counter of a request that is known to be refused. */
const peekOf = (debit: Debit): Debit =>
  standsAlone(debit) ? debit : { ...debit, kind: 'peek', hits: debit.kind === 'give_back' ? 0 : debit.hits };

/**
 * What answers a debit without a reply; undefined: there is a reply, or nothing does. While this process is overloaded,
 * it counts what can be counted in parts.
 */
function policyFor({ limit, policy }: Debit, reply: Reply | undefined): StoreFailurePolicy | undefined {
  if (!isUnavailable(reply)) return undefined;
  const counts = reply.isOverload && policy.onOverload !== 'error' && isDivisible(limit);
  return counts ? 'local' : policy.onStoreFailure;
}

const noTime: Unavailable = {
  code: 'UNAVAILABLE',
  reason: 'no time was left to ask the store: this process is late',
  isOverload: true,
};
const noReply: Unavailable = { code: 'UNAVAILABLE', reason: 'the counters gave no reply' };
const noLeases: Unavailable = { code: 'UNAVAILABLE', reason: 'nothing can be leased' };

const isDefined = (entry: LedgerEntry | undefined): entry is LedgerEntry => entry !== undefined;

const isKnown = (reply: LedgerEntry | Unavailable): boolean => reply.code !== 'UNAVAILABLE' && reply.fromCache === true;

const isUnavailable = (reply: Reply | undefined): reply is Unavailable => reply?.code === 'UNAVAILABLE';

function areAllOk(replies: Entries): boolean {
  for (const { code } of replies) if (code !== 'OK') return false;
  return true;
}

/** Whether the backend may have counted an operation without an answer. */
const isUnknown = (reply: Reply | undefined): boolean => isUnavailable(reply) && reply.isUnknown === true;

function withReceipt(reply: Entries[number], debit: Debit | undefined): Entries[number] {
  const isCharged = debit?.kind === 'charge' || (debit?.kind === 'spend' && reply.code === 'OK');
  if (!isCharged || reply.code === 'UNAVAILABLE') return reply;
  const isLocal = reply.degraded === 'local';
  if (reply.chargedAtMs === undefined && !isLocal) return reply;
  return { ...reply, receipt: new Receipt(debit, reply.chargedAtMs ?? 0, isLocal) };
}

const unknown = { hitsBefore: 0, retryAfterMs: 0, durationUntilResetMs: 0, delayMs: 0, soft: false } as const;

/** The answers of policies that do not count. */
const answerOf = {
  allow: ({ limit }: Debit): LedgerEntry => ({
    ...unknown,
    code: 'OK',
    limitRemaining: nominalCapacity(limit),
    degraded: 'allow',
  }),
  deny: ({ limit }: Debit): LedgerEntry => ({
    ...unknown,
    code: 'OVER_LIMIT',
    hitsBefore: nominalCapacity(limit),
    limitRemaining: 0,
    retryAfterMs: RETRY_MS,
    durationUntilResetMs: RETRY_MS,
    degraded: 'deny',
  }),
} as const;
