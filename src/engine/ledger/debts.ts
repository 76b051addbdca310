import type { Clock } from '../../base/clock.ts';
import { isPending } from '../../base/later.ts';
import { take } from '../../base/slices.ts';
import { rateFor } from '../algorithms/index.ts';
import { NEVER_MS, type Spend, type State } from '../algorithms/limit.ts';
import type { Backend, CounterDecision, Operation, Settlement } from '../backends/backend.ts';
import { type CounterKey, inOnePiece, isWide, keyBytes } from '../backends/key.ts';
import { createMemoryBackend, type MemoryBackend } from '../backends/memory/backend.ts';
import { within } from '../backends/within.ts';
import { algorithmFor, fullCapacity, isRateLimit, type Limit, nominalCapacity } from '../holds/limits.ts';
import type { Debit, KeptForCounters, LedgerEntry, Receipt } from './debit.ts';
import { isBySecond } from './ledger-backends.ts';

export interface DebtsOptions {
  /** The backend in which debts are settled. */
  readonly backendOf: (debit: Pick<Debit, 'limit'>) => Backend;
  readonly clock: Clock;
  /** Identifies this process; different after each start. */
  readonly instance: string;
  /** Maximum number of counters kept in this process while the backend is away. */
  readonly maxCounters: number;
  /** Maximum memory of these counters and of the hits to settle later, half of it each. */
  readonly maxBytes: number;
  /** The number of processes that share the limits whose rule does not state it: each may pass a hit. */
  readonly instances: () => number;
}

/** Retry-After of a hit that may pass once the counters can be reached again. */
export const RETRY_MS = 1_000;
/** Maximum time that shutdown settles debts for, if the backend is available; the remaining ones are lost. */
const CLOSE_WITHIN_MS = 1_000;
/** How long a peek or a settlement may take. */
const TIMEOUT_MS = 1_000;
/** Maximum number of debts in a settlement, so that requests are not delayed. */
const SLICE = 64;
/** Shards that are settled at the same time. */
const MAX_SHARDS = 64;
/** Maximum number of debts that one call of `settle` checks for expiry. */
const MAX_EXAMINED = 10_000;

type LocalCounters = Pick<MemoryBackend, 'run' | 'fork' | 'close'>;

const localCounters = ({ clock, maxCounters, maxBytes }: DebtsOptions): LocalCounters =>
  createMemoryBackend(clock, { maxCounters, maxBytes: maxBytes / 2 });

/** Counters that are settled together, one settlement at a time. */
interface Shard {
  readonly backend: Backend;
  readonly debts: Map<CounterKey, Debt>;
  /** The debts in the settlement with this number, which is sent until it succeeds. */
  pending: readonly Debt[];
  number: number;
  running: Promise<void> | undefined;
  /** Whether the backend must answer a peek first: it might hold a settlement back, and count it later. */
  mustPeek: boolean;
}

/**
 * Counts in this process while the backend is away, each limit at its share, and settles these hits in the backend when
 * it is back.
 *
 * Hits admitted here use up the share until the window ends, even after they have been settled: a window never admits
 * more than the share here, however many outages it has. Each settlement has a number, so that the backend counts it
 * once, however often it is sent.
 */
export class Debts implements KeptForCounters {
  readonly #options: DebtsOptions;
  readonly #local: LocalCounters;
  readonly #shards = new Map<string, Shard>();
  #size = 0;
  #bytes = 0;
  /** The number of the last settlement of any shard: shards without debts are dropped. */
  #lastNumber = 0;

  constructor(options: DebtsOptions, local: LocalCounters = localCounters(options)) {
    this.#options = options;
    this.#local = local;
  }

  /** A copy of the local counts of these counters, for `backendOf`'s copies. */
  copyCounters(debits: readonly Debit[], backendOf: DebtsOptions['backendOf']): Debts {
    return new Debts({ ...this.#options, backendOf }, this.#local.fork(debits).backend);
  }

  /** The number of counters with hits that the backend has not counted. */
  get size(): number {
    return this.#size;
  }

  /**
   * Decides debits of one request in this process alone.
   *
   * @param isRefused  another limit of the request refuses it, and it spends as a set: nothing is counted
   * @param isUnknown  whether the backend may have counted the debit at this index: its hits use up the local share
   *                   and are never settled
   */
  count(
    debits: readonly Debit[],
    spend: Spend,
    { isRefused, isUnknown }: { readonly isRefused: boolean; readonly isUnknown: (at: number) => boolean },
  ): readonly LedgerEntry[] {
    const requested = isRefused ? debits.map(peekAt) : debits;
    const decisions = this.#run(requested.map(this.#toLocal), spend);
    const refused =
      spend !== 'each' && decisions.some(({ code }, at) => code === 'OVER_LIMIT' && requested[at]?.blocks);
    for (const [at, debit] of requested.entries()) {
      if (refused || isUnknown(at) || (decisions[at]?.code !== 'OK' && debit.kind !== 'charge')) continue;
      if (debit.kind === 'spend' || debit.kind === 'charge') this.#addDebt(debit, debit.hits);
      if (debit.kind === 'give_back') this.giveBack(debit, false);
    }
    return decisions.map((decision, at) => localDecision(decision, requested[at]));
  }

  /**
   * Keeps returned hits until the backend can be reached: first those counted locally, then those counted in the
   * backend.
   *
   * @param isShared  whether the hits also return to this process's share
   */
  giveBack(debit: Debit, isShared: boolean): void {
    if (isShared) this.#run([this.#toLocal(debit)], 'each');
    const nowMs = this.#options.clock();
    const debt = this.#openDebt(debit);
    if (!debt) return;
    const unsettled = hitsIn(debit.limit, debt.unsettled, nowMs);
    const taken = Math.min(unsettled, debit.hits);
    const left = this.#stateAfter(debt.unsettled, debit.limit, -taken);
    this.#change(debt, left, this.#stateAfter(debt.returned, debit.limit, debit.hits - taken));
  }

  /** Takes back hits that were counted here. */
  refund({ refund, policy }: Receipt): void {
    const { key, shared, limit, hits, metered, usageKey } = refund;
    this.giveBack({ kind: 'give_back', key, shared, limit, hits, blocks: false, policy, metered, usageKey }, true);
  }

  /** Voids hits that were counted here before the counter was reset. Waits for a settlement in flight. */
  async forget(debit: Debit): Promise<void> {
    await this.#findShard(debit).running;
    this.drop(debit.key);
    this.#run([{ ...this.#toLocal(debit), kind: 'forget' }], 'each');
  }

  /** Drops the unsettled hits of a counter that was reset. */
  drop(key: CounterKey): void {
    for (const shard of this.#shards.values()) {
      const waiting = shard.debts.get(key);
      shard.debts.delete(key);
      this.#remove([...(waiting ? [waiting] : []), ...shard.pending.filter(({ debit }) => debit.key === key)]);
      shard.pending = shard.pending.filter(({ debit }) => debit.key !== key);
    }
  }

  /** Settles a part of the debts, if the backend is available. Must be called repeatedly while there are debts. */
  async settle(): Promise<void> {
    this.#expire();
    const due = [...this.#shards].filter(([, { debts, pending }]) => debts.size + pending.length > 0);
    const next = due.slice(0, MAX_SHARDS);
    for (const [name, shard] of next) {
      this.#shards.delete(name);
      this.#shards.set(name, shard); // the others come next, even if these cannot be settled
    }
    await Promise.all(next.map(([, shard]) => this.#settleOne(shard)));
  }

  async close(): Promise<void> {
    await within(CLOSE_WITHIN_MS, this.#settleAll());
    await this.#local.close();
  }

  async #settleAll(): Promise<void> {
    for (let before = Number.POSITIVE_INFINITY; this.#size > 0 && this.#size < before; ) {
      before = this.#size;
      await this.settle();
    }
  }

  #settleOne(shard: Shard): Promise<void> {
    shard.running ??= this.#send(shard).finally(() => {
      shard.running = undefined;
    });
    return shard.running;
  }

  async #send(shard: Shard): Promise<void> {
    const { backend, debts } = shard;
    const mustPeek = shard.mustPeek || !backend.health().ready; // other nodes of it may be ready
    if (mustPeek && !(await this.#peek(shard))) return;
    if (shard.pending.length === 0) {
      shard.pending = [...take(SLICE, debts.values())];
      for (const { debit } of shard.pending) debts.delete(debit.key);
      shard.number = ++this.#lastNumber;
    }
    const sent = shard.pending;
    const operations = sent.flatMap((debt) => settlingOperations(debt, this.#options.clock()));
    const settlement: Settlement = { instance: this.#options.instance, number: shard.number, operations };
    const isSettled = operations.length === 0 || (await backend.settle(settlement, TIMEOUT_MS));
    shard.mustPeek = !isSettled;
    if (!isSettled) return;
    this.#remove(shard.pending);
    shard.pending = [];
  }

  /** Drops debts that no longer matter, to make room however long the backend is away; continues where it stopped. */
  #expire(): void {
    const nowMs = this.#options.clock();
    let [left, shards] = [MAX_EXAMINED, this.#shards.size];
    for (const [name, shard] of this.#shards) {
      if (left <= 0 || shards-- === 0) return;
      const count = Math.min(shard.debts.size, left);
      this.#expireIn(shard, count, nowMs);
      left -= 1 + count;
      this.#shards.delete(name);
      if (shard.debts.size + shard.pending.length > 0 || shard.running) this.#shards.set(name, shard);
    }
  }

  #expireIn({ debts }: Shard, count: number, nowMs: number): void {
    let left = count;
    for (const [key, debt] of debts) {
      if (left-- === 0) return;
      debts.delete(key);
      if (debt.untilMs > nowMs) debts.set(key, debt);
      else this.#remove([debt]);
    }
  }

  async #peek({ backend, debts, pending }: Shard): Promise<boolean> {
    const [first] = pending.length > 0 ? pending : debts.values();
    if (!first) return true;
    const how = { spend: 'each', timeoutMs: TIMEOUT_MS } as const;
    const [reply] = await backend.run([{ ...first.debit, kind: 'peek', hits: 0 }], how);
    return reply !== undefined && reply.code !== 'UNAVAILABLE';
  }

  #addDebt(debit: Debit, hits: number): void {
    const debt = this.#openDebt(debit);
    if (debt) this.#change(debt, this.#stateAfter(debt.unsettled, debit.limit, hits), debt.returned);
  }

  /** The counter's debt; undefined if there is no room for another one, whose hits are not settled. */
  #openDebt(debit: Debit): Debt | undefined {
    const { debts } = this.#findShard(debit);
    const known = debts.get(debit.key);
    if (known || this.#size >= this.#options.maxCounters) return known;
    const fresh = newDebt(debit);
    if (this.#bytes + debtBytes(fresh) > this.#options.maxBytes / 2) return undefined;
    debts.set(fresh.debit.key, fresh);
    this.#size++;
    this.#bytes += debtBytes(fresh);
    return fresh;
  }

  /** Changes a debt. If there is no room for longer states, it is unchanged, and the hits are not settled. */
  #change(debt: Debt, unsettled: State | undefined, returned: State | undefined): void {
    const more = debtBytes({ ...debt, unsettled, returned }) - debtBytes(debt);
    if (more > 0 && this.#bytes + more > this.#options.maxBytes / 2) return;
    this.#bytes += more;
    const { limit } = debt.debit;
    const nowMs = this.#options.clock();
    debt.unsettled = unsettled;
    debt.returned = returned;
    debt.untilMs = Math.max(emptyAtMs(limit, unsettled, nowMs), emptyAtMs(limit, returned, nowMs));
  }

  /** @param hits  negative to give them back */
  #stateAfter(state: State | undefined, limit: Limit, hits: number): State | undefined {
    if (hits === 0) return state;
    const charge = hits < 0 ? true : 'regardless';
    const next = algorithmFor(limit).step(limit, state, this.#options.clock(), hits, charge);
    return next.ttlMs > 0 ? next.state : undefined;
  }

  #remove(debts: readonly Debt[]): void {
    this.#size -= debts.length;
    for (const debt of debts) this.#bytes -= debtBytes(debt);
  }

  #findShard(debit: Debit): Shard {
    const backend = this.#options.backendOf(debit);
    const name = `${isBySecond(debit) ? 's' : 'o'}${backend.shardOf(debit)}`;
    const known = this.#shards.get(name);
    if (known) return known;
    const fresh = { backend, debts: new Map(), pending: [], number: 0, running: undefined, mustPeek: true };
    this.#shards.set(name, fresh);
    return fresh;
  }

  /** The debit on this process's share of the limit. */
  readonly #toLocal = ({ kind, key, limit, hits, blocks, policy }: Debit): Debit => {
    const sharing = policy.localShare ?? Math.max(Math.min(this.#options.instances(), nominalCapacity(limit)), 1);
    const share = isRateLimit(limit) ? rateFor(limit).divide(limit, sharing) : limit;
    return { kind, key, limit: share, hits, blocks, policy };
  };

  #run(operations: readonly Operation[], spend: Spend): readonly CounterDecision[] {
    const replies = this.#local.run(operations, { spend, timeoutMs: 0 });
    if (isPending(replies)) throw new TypeError('counters in memory reply at once');
    return replies.flatMap((reply) => (reply.code === 'UNAVAILABLE' ? [] : reply)); // counters in memory always can
  }
}

const peekAt = (debit: Debit): Debit => ({ ...debit, kind: 'peek', hits: 0 });

/** Hits that fit into the whole limit may pass when the backend is back. */
function localDecision(decision: CounterDecision, debit: Debit | undefined): LedgerEntry {
  const neverFits =
    decision.retryAfterMs === NEVER_MS && debit !== undefined && debit.hits <= fullCapacity(debit.limit);
  return { ...decision, ...(neverFits && { retryAfterMs: RETRY_MS }), degraded: 'local' };
}

/**
 * Hits that were counted here and not yet in the backend. They are kept as state of the whole limit's counter, so that
 * they expire when they no longer matter.
 */
interface Debt {
  readonly debit: Debit;
  unsettled: State | undefined;
  returned: State | undefined;
  /** The time, in milliseconds since the epoch, from which the counter would have none of the hits. */
  untilMs: number;
}

/** A debt without hits. It retains nothing of the request except the debit. */
const newDebt = (debit: Debit): Debt => ({
  debit: { ...debit, key: inOnePiece(debit.key) },
  unsettled: undefined,
  returned: undefined,
  untilMs: 0,
});

/** The bytes of a debt, its debit, and the window that it shares with other programs. */
const DEBT_BYTES = 208;
/** The bytes of a state's array with its header, and of each of its numbers. */
const STATE_BYTES = 56;
const NUMBER_BYTES = 8;

/** The approximate memory of a debt. */
const debtBytes = ({ debit: { key }, unsettled, returned }: Debt): number =>
  DEBT_BYTES + keyBytes(key.length, isWide(key)) + stateBytes(unsettled) + stateBytes(returned);

const stateBytes = (state: State | undefined): number => (state ? STATE_BYTES + NUMBER_BYTES * state.length : 0);

/** The hits that a state still has. */
function hitsIn(limit: Limit, state: State | undefined, nowMs: number): number {
  if (!state) return 0;
  const { step, describe } = algorithmFor(limit);
  const { state: current, report = current } = step(limit, state, nowMs, 0, false);
  return describe(limit, report, nowMs, { hits: 0, accepted: true, charged: false }).hitsBefore;
}

/** When a state has no hits left. */
const emptyAtMs = (limit: Limit, state: State | undefined, nowMs: number): number =>
  state ? nowMs + algorithmFor(limit).step(limit, state, nowMs, 0, false).ttlMs : 0;

/** The operations that settle the debt. */
function settlingOperations({ debit, unsettled, returned }: Debt, nowMs: number): readonly Operation[] {
  const charged = hitsIn(debit.limit, unsettled, nowMs);
  const givenBack = hitsIn(debit.limit, returned, nowMs);
  return [
    ...(charged > 0 ? [{ ...debit, kind: 'charge' as const, hits: charged }] : []),
    ...(givenBack > 0 ? [{ ...debit, kind: 'give_back' as const, hits: givenBack }] : []),
  ];
}
