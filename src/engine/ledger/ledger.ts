import type { Clock, every, Monotonic } from '../../base/clock.ts';
import { after, type Eventual } from '../../base/later.ts';
import { reservationKeepers } from '../../parts/ledger-keepers.ts';
import type { LimitPolicy, Spend, State } from '../algorithms/limit.ts';
import {
  type Backend,
  type BackendHealth,
  type CounterPage,
  type Operation,
  type Replies,
  type Reply,
  type RunOptions,
  standsAlone,
  type Unavailable,
} from '../backends/backend.ts';
import type { Counter, CounterKey } from '../backends/key.ts';
import { scatter } from '../backends/scatter.ts';
import { hasHolders, type Limit } from '../holds/limits.ts';
import { createDebit, type Debit, type Entries, type KeptForCounters, type LedgerEntry, Receipt } from './debit.ts';
import { Debts, type DebtsOptions } from './debts.ts';
import { FailurePolicies, isUnavailable, isUnknown } from './failure-policies.ts';
import { isLeased, type Leases, type OpenLeases } from './leases.ts';
import { type Backends, LedgerBackends } from './ledger-backends.ts';
import { Refusals } from './refusals.ts';
import type { Lapses, PendingCommits } from './reservations.ts';

interface LedgerOptions {
  readonly clock: Clock;
  readonly monotonicMs: Monotonic;
  /** Identifies this process to the backends; different after each start. */
  readonly instance: string;
  /** Approximate memory for remembered refusals; 0 to remember none. */
  readonly denyCacheBytes: number;
  /** Whether known refusals hold while the backends do not answer, whatever the policies of limits. Default: true. */
  readonly keepsRefusals?: boolean | undefined;
  /** Opens leases; absent if nothing is leased. */
  readonly leases?: OpenLeases | undefined;
  /** Bounds of local counts; absent if hits that the backends cannot count get no answer. */
  readonly local?: Pick<DebtsOptions, 'maxCounters' | 'maxBytes' | 'instances'> | undefined;
  readonly every: typeof every;
}

/** Runs a backend call under observation. */
export type Trace = (run: () => Eventual<Replies>) => Eventual<Replies>;

/** Measures some of the calls to the backends. */
export interface StoreMeter {
  /** Begins a call. @returns what reads its duration, or undefined if the call is not measured */
  begin(): (() => number) | undefined;
  /** A measured call has ended. */
  end(operations: readonly Operation[], stop: () => number): void;
}

/** What a copy remembers, in place of what the options describe. */
interface Copied {
  readonly refusals: Refusals | undefined;
  debts(backendOf: DebtsOptions['backendOf']): Debts | undefined;
}

/** A ledger that continues from copies of some counters. */
export interface LedgerFork {
  readonly ledger: Ledger;
  /** The clock used to decide the debit. */
  nowMs(debit: Pick<Debit, 'key' | 'limit'>): number;
  /** State of the backend's counter in the copy; undefined if it is new, or could not be read. */
  readState(debit: Pick<Debit, 'key' | 'limit' | 'share'>): State | undefined;
  /** Reason why the backend's counter could not be read; undefined if it was. */
  findFailure(debit: Pick<Debit, 'key' | 'limit'>): string | undefined;
}

/** The context of a request in flight. */
interface Asking {
  readonly ledger: Ledger;
  readonly request: readonly Debit[];
  readonly how: RunOptions;
  readonly calledAtMs: number;
}

/** What keeps reservations; undefined if the part was taken out. */
const [reserved] = Object.values(reservationKeepers);

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
  /** The deny cache; undefined if it is disabled. */
  readonly refusals: Refusals | undefined;
  readonly leases: Leases | undefined;
  /** Commits to send again; undefined if the backend is always available. */
  readonly pendingCommits: PendingCommits | undefined;
  /** Reservations that lapse; undefined in a copy. */
  readonly lapses: Lapses | undefined;
  readonly #backends: LedgerBackends;
  readonly #debts: Debts | undefined;
  /** What the deny cache remembers, or less; undefined if the backend is always available. */
  readonly #remembered: Refusals | undefined;
  readonly #options: LedgerOptions;
  readonly #policies: FailurePolicies | undefined;
  readonly #keepsRefusals: boolean;
  /** Everything that must be dropped when a counter is reset. */
  readonly #kept: readonly KeptForCounters[];
  #stop: (() => void) | undefined;
  #trace: Trace | undefined;
  #meter: StoreMeter | undefined;

  constructor(backends: Backends, options: LedgerOptions, copied?: Copied) {
    this.#backends = new LedgerBackends(backends);
    this.#options = options;
    const { monotonicMs, every, denyCacheBytes, keepsRefusals = true, local } = options;
    const isLive = (): boolean => this.#backends.isLive();
    const backendOf = (debit: Pick<Debit, 'limit'>): Backend => this.#backends.of(debit);
    this.#keepsRefusals = keepsRefusals;
    this.leases = options.leases?.({ monotonicMs, every, run: this.#runOne, isLive });
    this.#remembered = copied ? copied.refusals : createRefusals(options, isLive);
    this.refusals = denyCacheBytes > 0 ? this.#remembered : undefined;
    const debts = copied ? copied.debts(backendOf) : local && new Debts({ ...options, ...local, backendOf });
    this.#debts = debts;
    this.#policies = debts && new FailurePolicies({ debts, remembered: this.#remembered, keepsRefusals });
    if (!copied) {
      this.lapses = reserved?.lapses({ ...options, run: (all, how) => this.#ask(all, how) });
      if (local)
        this.pendingCommits = reserved?.pendingCommits({
          monotonicMs,
          run: (all, how) =>
            after(this.#backends.run(all, how), (replies) => {
              this.lapses?.note(all, replies);
              return replies;
            }),
        });
      if (this.refusals || this.leases) this.#listen();
      if (local && this.#keepsRefusals) this.#backends.recallWith(this.#recallQueued);
    }
    const kept = [this.leases, this.#remembered, this.#debts, this.pendingCommits, this.lapses];
    this.#kept = kept.filter((one) => one !== undefined);
  }

  /** Settles what the backends could not count, repeatedly, until nothing is left. */
  #settleSoon(): void {
    this.#stop ??= this.#options.every(SETTLE_INTERVAL_MS, () => {
      void this.#debts?.settle();
      void this.pendingCommits?.send();
      if (this.#debts?.size || this.pendingCommits?.counts().pending) return;
      this.#stop?.();
      this.#stop = undefined;
    });
  }

  /** The scope of an atomic step. */
  get atomic(): Backend['atomic'] {
    return this.#backends.atomic;
  }

  /** Runs all later backend calls inside `trace`. */
  traceWith(trace: Trace): void {
    this.#trace = trace;
  }

  /** Has a sample of all later backend calls measured. */
  meterWith(meter: StoreMeter): void {
    this.#meter = meter;
  }

  /** Answers one request's debits, in their order; never rejects. */
  debit(request: readonly Debit[], how: RunOptions): Eventual<Entries> {
    const known = this.#remembered || this.leases ? this.#answerFromMemory(request, how) : undefined;
    if (!how.receipts && known?.every(isDefined)) return known;
    const calledAtMs = this.#remembered ? this.#options.monotonicMs() : 0;
    const asking = { ledger: this, request, how, calledAtMs };
    if (this.#isRefusedInSilence(request, calledAtMs)) return this.#conclude(request.map(inSilence), asking);
    const replies = known ? this.#gather(request, known, how) : this.#ask(request, how);
    return after(replies, Ledger.#concluded, asking);
  }

  static #concluded(this: void, replies: Entries, asking: Asking): Entries {
    return asking.ledger.#conclude(replies, asking);
  }

  /** The answer to a request that is known to be refused, without the backends; undefined if it is not. */
  recall(request: readonly Debit[], spend: Spend): Entries | undefined {
    if (!this.#policies || !this.#keepsRefusals) return undefined;
    if (!request.some(this.#isRecalled)) return undefined;
    this.#settleSoon();
    return this.#policies.answer(request, request.map(inSilence), spend);
  }

  /** Takes the hits of a receipt back, once. */
  async refund(receipt: Receipt): Promise<void> {
    if (!receipt.redeem()) return;
    if (receipt.isLocal) {
      this.#debts?.refund(receipt);
      this.#settleSoon();
    } else await this.#runOne(receipt.refund, { spend: 'each', timeoutMs: OPERATION_TIMEOUT_MS });
  }

  /**
   * Resets a counter, with its leases, remembered refusals and debts, on every instance.
   *
   * @returns the reason if the backend could not; its counter is unchanged then
   */
  async forget(counter: Counter, limit: Limit, policy: LimitPolicy = {}): Promise<Unavailable | undefined> {
    const debit = createDebit(counter, { limit, policy }, 0, false);
    await this.#debts?.forget(debit);
    this.forgetLocally(counter.key);
    const reply = await this.#runOne({ ...debit, kind: 'forget' }, { spend: 'each', timeoutMs: OPERATION_TIMEOUT_MS });
    this.#remembered?.drop(counter.key);
    this.#backends.publish('forgotten', debit);
    return reply.code === 'UNAVAILABLE' ? reply : undefined;
  }

  /**
   * Copies everything that determines these debits: counters, leases, remembered refusals and local counts. The copy
   * answers as this ledger would now; nothing here is changed.
   */
  async fork(request: readonly Debit[], timeoutMs: number): Promise<LedgerFork> {
    const { main, perSecond } = this.#backends;
    const createFork = (backend: Backend) =>
      backend.fork(
        request.filter((debit) => this.#backends.of(debit) === backend),
        timeoutMs,
      );
    const [ofMain, ofPerSecond] = await Promise.all([createFork(main), perSecond && createFork(perSecond)]);
    const keys = request.map(({ key }) => key);
    const copied: Copied = {
      refusals: this.#remembered?.copyCounters(keys),
      debts: (backendOf) => this.#debts?.copyCounters(request, backendOf),
    };
    const { leases } = this;
    const copyLeases: OpenLeases | undefined = leases && (({ run }) => leases.copyCounters(keys, run));
    const backends = { main: ofMain.backend, perSecond: ofPerSecond?.backend };
    const ledger = new Ledger(backends, { ...this.#options, leases: copyLeases, every: () => () => {} }, copied);
    const forkFor = (debit: Pick<Debit, 'limit'>) =>
      this.#backends.of(debit) === main ? ofMain : (ofPerSecond ?? ofMain);
    return {
      ledger,
      nowMs: (debit) => forkFor(debit).nowMs(debit.key),
      readState: (debit) => forkFor(debit).readState(debit),
      findFailure: (debit) => forkFor(debit).findFailure(debit.key),
    };
  }

  /** Lists the counters of all backends: see `LedgerBackends.list`. */
  list(after: string | undefined, count: number): Promise<CounterPage | undefined> {
    return this.#backends.list(after, count);
  }

  /** The counter may have room again. */
  recheck(key: CounterKey): void {
    this.#remembered?.drop(key);
  }

  /** Drops this process's state of a counter that was reset. */
  forgetLocally(key: CounterKey): void {
    for (const one of this.#kept) one.drop(key);
  }

  health(): BackendHealth {
    return this.#backends.health();
  }

  async close(): Promise<void> {
    this.#stop?.();
    this.lapses?.close();
    await Promise.all([this.leases?.close(), this.#debts?.close(), this.pendingCommits?.close()]);
    await this.#backends.close();
  }

  #listen(): void {
    this.#backends.listen({
      changed: (key) => this.#remembered?.drop(key),
      forgotten: (key) => this.forgetLocally(key),
      missed: () => this.#remembered?.clear(),
      doubted: () => this.#remembered?.hold(),
      trusted: () => this.#remembered?.release(),
    });
  }

  /** The answers from memory; undefined if there are none. */
  #answerFromMemory(request: readonly Debit[], how: RunOptions): readonly (LedgerEntry | undefined)[] | undefined {
    let known: (LedgerEntry | undefined)[] | undefined;
    for (let at = 0; at < request.length; at++) {
      const debit = request[at] as Debit; // in range
      const leases = this.#leasesFor(debit, how);
      const decision = leases?.spend(debit) ?? this.#findRefusal(debit, how);
      if (!leases && decision === undefined) continue;
      known ??= new Array<LedgerEntry | undefined>(request.length).fill(undefined);
      known[at] = decision;
    }
    return known;
  }

  #leasesFor(debit: Debit, { spend }: RunOptions): Leases | undefined {
    return spend === 'each' && isLeased(debit) ? this.leases : undefined;
  }

  /**
   * Whether a request is known to be refused while its store is silent. Its caller need not wait for the end of the
   * store's time: proxies with short timeouts would let it pass.
   */
  #isRefusedInSilence(request: readonly Debit[], nowMs: number): boolean {
    if (!this.#debts) return false;
    for (const debit of request)
      if (this.#backends.isSilent(debit, nowMs) && this.#isRecalled(debit))
        return this.#keepsRefusals || request.every(({ policy }) => policy.onStoreFailure === 'local');
    return false;
  }

  readonly #isRecalled = (debit: Debit): boolean => debit.blocks && this.#remembered?.recall(debit) !== undefined;

  /** A refusal that needs no call, from the deny cache or in a burst. */
  #findRefusal(debit: Debit, { receipts }: RunOptions): LedgerEntry | undefined {
    if (this.refusals) return this.refusals.find(debit);
    return this.#policies && this.#keepsRefusals && !receipts ? this.#remembered?.findInBurst(debit) : undefined;
  }

  /** The replies to a request that waited for a call to the store, and is now known to be refused by each limit. */
  readonly #recallQueued = (operations: readonly Operation[]): Replies | undefined => {
    const replies: Reply[] = [];
    for (const operation of operations) {
      const reply = 'policy' in operation ? this.#remembered?.findRecent(operation as Debit) : undefined; // of a request
      if (!reply) return undefined;
      replies.push(reply);
    }
    return replies;
  };

  /** Requests the remaining answers. If a set is known to be refused, its counters are only peeked at. */
  #gather(request: readonly Debit[], known: readonly (LedgerEntry | undefined)[], how: RunOptions): Eventual<Entries> {
    const isRefused = how.spend !== 'each' && known.some((decision, at) => decision && request[at]?.blocks);
    const requested = isRefused ? request.map(asPeek) : request;
    const chooseSource = (debit: Debit, at: number) =>
      known[at] ? 'memory' : (this.#leasesFor(debit, how) ?? 'backends');
    return scatter(requested, chooseSource, (source, debits, at): Eventual<Entries> => {
      if (source === 'memory') return at.flatMap((place) => known[place] ?? []);
      if (source === 'backends') return this.#ask(debits, how);
      return Promise.all(debits.map((debit) => source.answer(debit, how.timeoutMs)));
    });
  }

  readonly #runOne = (operation: Operation, how: RunOptions): Eventual<Reply> =>
    after(this.#ask([operation], how), ([reply = noReply]) => reply);

  /** Runs operations on their counters' backends. Holders of cached refusals are told of changes that make room. */
  #ask(operations: readonly Operation[], how: RunOptions): Eventual<Replies> {
    if (this.#debts && how.timeoutMs <= 0) return operations.map(() => noTime);
    const isNoted = (this.#backends.publishes || this.#remembered !== undefined) && operations.some(mayMakeRoom);
    if (isNoted) this.#noteChanges(operations, false);
    const stop = this.#meter?.begin();
    const replies = this.#trace
      ? this.#trace(() => this.#backends.run(operations, how))
      : this.#backends.run(operations, how);
    if (!isNoted && stop === undefined) return replies;
    return after(replies, (all) => {
      if (stop !== undefined) this.#meter?.end(operations, stop);
      if (isNoted) this.#noteChanges(operations, true);
      return all;
    });
  }

  #noteChanges(operations: readonly Operation[], isDone: boolean): void {
    for (const operation of operations) {
      if (!mayMakeRoom(operation)) continue;
      this.#remembered?.drop(operation.key);
      if (isDone) this.#backends.publish('changed', operation);
    }
  }

  #conclude(replies: Entries, asking: Asking): Entries {
    const { request, how, calledAtMs } = asking;
    let decided: Entries = replies;
    this.lapses?.note(request, replies);
    if (!areAllOk(replies)) {
      if (this.#remembered) this.#remember(replies, asking);
      if (this.#policies && replies.some(isUnavailable)) {
        this.pendingCommits?.keep(request, replies, calledAtMs);
        decided = this.#policies.answer(request, replies, how.spend);
        this.#settleSoon();
      }
    }
    if (!how.receipts) return decided;
    return decided.map((reply, at) => (isUnknown(replies[at]) ? reply : withReceipt(reply, request[at])));
  }

  /** If a request uses a counter more than once, its own hits may cause the refusal, which is then not remembered. */
  #remember(replies: Entries, { request, how: { spend }, calledAtMs }: Asking): void {
    const isPeeked = spend !== 'each' && replies.some((reply, at) => isKnown(reply) && request[at]?.blocks);
    for (let at = 0; at < replies.length; at++) {
      const reply = replies[at] as LedgerEntry | Unavailable; // in range
      if (reply.code !== 'OVER_LIMIT' || isKnown(reply)) continue;
      const debit = request[at];
      if (!debit || request.some((other) => other !== debit && other.key === debit.key)) continue;
      const counted = isPeeked ? asPeek(debit) : debit;
      // a refusal is charged with spare_others, too
      const isCharged = !isPeeked && spend !== 'all_or_nothing';
      this.#remembered?.remember(counted, reply, { isCharged, calledAtMs });
    }
  }
}

function createRefusals(
  { monotonicMs, denyCacheBytes, local }: LedgerOptions,
  isLive: () => boolean,
): Refusals | undefined {
  const isLocalCache = denyCacheBytes > 0;
  const maxBytes = isLocalCache ? denyCacheBytes : RECALLED_BYTES;
  return isLocalCache || local ? new Refusals({ monotonicMs, maxBytes, isLive, isLocalCache }) : undefined;
}

/** Whether a remembered refusal may be outdated afterwards. */
const mayMakeRoom = ({ kind, limit }: Operation): boolean =>
  (kind === 'give_back' || kind === 'refund') && !hasHolders(limit); // else none is remembered

/** The operation on a counter of a request that is known to be refused. */
const asPeek = (debit: Debit): Debit =>
  standsAlone(debit) ? debit : { ...debit, kind: 'peek', hits: debit.kind === 'give_back' ? 0 : debit.hits };

const noTime: Unavailable = {
  code: 'UNAVAILABLE',
  reason: 'no time was left to ask the store: this process is late',
  isOverload: true,
};
const silence: Unavailable = { code: 'UNAVAILABLE', reason: 'the store has been silent for longer than usual' };
const inSilence = (): Unavailable => silence;
const noReply: Unavailable = { code: 'UNAVAILABLE', reason: 'the counters gave no reply' };

const isDefined = (entry: LedgerEntry | undefined): entry is LedgerEntry => entry !== undefined;

const isKnown = (reply: LedgerEntry | Unavailable): boolean => reply.code !== 'UNAVAILABLE' && reply.fromCache === true;

function areAllOk(replies: Entries): boolean {
  for (const { code } of replies) if (code !== 'OK') return false;
  return true;
}

function withReceipt(reply: Entries[number], debit: Debit | undefined): Entries[number] {
  const isCharged = debit?.kind === 'charge' || (debit?.kind === 'spend' && reply.code === 'OK');
  if (!isCharged || reply.code === 'UNAVAILABLE') return reply;
  const isLocal = reply.degraded === 'local';
  if (reply.chargedAtMs === undefined && !isLocal) return reply;
  return { ...reply, receipt: new Receipt(debit, reply.chargedAtMs ?? 0, isLocal) };
}
