import { after } from '../../base/later.ts';
import { rateFor } from '../../engine/algorithms/index.ts';
import type { Decision } from '../../engine/algorithms/limit.ts';
import type { Operation, Reply } from '../../engine/backends/backend.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { within } from '../../engine/backends/within.ts';
import { fullCapacity, isRateLimit } from '../../engine/holds/limits.ts';
import type { Debit, LedgerEntry } from '../../engine/ledger/debit.ts';
import type { Leases, LeasesContext, OpenLeases } from '../../engine/ledger/leases.ts';

interface LeaseBounds {
  /** Maximum number of leases at a time; hits on other counters are counted one by one. Default: 100,000. */
  readonly maxLeases?: number | undefined;
  /** Leased hits that are unused for this time are given back. Default: 250. */
  readonly idleMs?: number | undefined;
}

/** Fraction of a counter's remaining hits that one lease takes, so that instances share what remains as it shrinks. */
export const SHARE_OF_REST = 1 / 20;
/** How long a lease should last at the rate of its counter. */
export const LEASE_MS = 100;
const IDLE_MS = 250;
const MAX_LEASES = 100_000;
/** Timeout for giving hits back, which is tried once; without a confirmation, they are lost until the window ends. */
const GIVE_BACK_TIMEOUT_MS = 1_000;

/** All times are of the monotonic clock, except the time of the charge. */
interface Lease {
  readonly debit: Debit;
  /** Hits that may still be answered from the lease, until `expiresAtMs`. */
  left: number;
  expiresAtMs: number;
  /** The store's time of the block's charge. */
  chargedAtMs: number;
  /** Hits that the counter had left at the last call, in addition to those leased then; valid until `resetAtMs`. */
  rest: number;
  resetAtMs: number;
  usedAtMs: number;
  /** Hits requested since `countedSinceMs`. */
  requested: number;
  countedSinceMs: number;
  /** Resolves when a requested block has arrived, or with the reason why it has not; undefined if none is requested. */
  asking: Promise<Reply> | undefined;
  /** Whether the lease was replaced, or the process is ending, so that a block that arrives now is given back. */
  isEnded: boolean;
}

/** A debit for which the counter is asked. */
interface Asked {
  readonly lease: Lease;
  readonly debit: Debit;
  /** When its answer must have arrived, on the monotonic clock. */
  readonly endMs: number;
}

/** Opens leases with these bounds. */
export const leasesWithin =
  (bounds: LeaseBounds = {}): OpenLeases =>
  (context) =>
    new BlockLeases(context, bounds);

/**
 * Answers hits from blocks. It never admits more than the limit, even if this process fails; leased and unused hits
 * only lower what passes. A block lasts about `LEASE_MS` at the counter's rate, and is a small part of the counter's
 * remaining hits.
 *
 * A fixed window's lease ends with the window, measured from before the request for it. Unused hits are refunded when
 * they are idle, and at shutdown.
 */
class BlockLeases implements Leases {
  readonly #context: LeasesContext;
  readonly #maxLeases: number;
  readonly #idleMs: number;
  readonly #stop: () => void;
  readonly #leases = new Map<CounterKey, Lease>();
  readonly #running = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(context: LeasesContext, { maxLeases = MAX_LEASES, idleMs = IDLE_MS }: LeaseBounds) {
    this.#context = context;
    this.#maxLeases = maxLeases;
    this.#idleMs = idleMs;
    this.#stop = context.every(idleMs, () => this.#giveBackIdle());
  }

  get leased(): number {
    const nowMs = this.#context.monotonicMs();
    let sum = 0;
    for (const { left, expiresAtMs } of this.#leases.values()) if (expiresAtMs > nowMs) sum += left;
    return sum;
  }

  copyCounters(keys: Iterable<CounterKey>, run: LeasesContext['run']): Leases {
    const known = Array.from(new Set(keys)).flatMap((key) => this.#leases.get(key) ?? []);
    const maxLeases = this.#maxLeases - this.#leases.size + known.length; // as many new leases as here
    const copy = new BlockLeases({ ...this.#context, run, every: () => () => {} }, { maxLeases });
    for (const lease of known) copy.#leases.set(lease.debit.key, { ...lease, asking: undefined });
    return copy;
  }

  spend(debit: Debit): LedgerEntry | undefined {
    const lease = this.#leases.get(debit.key);
    if (lease?.debit.limit !== debit.limit) return undefined;
    const decision = spendFrom(lease, debit.hits, this.#context.monotonicMs());
    if (decision) lease.requested += debit.hits;
    return decision;
  }

  /** Answers in time, from a block that another call has requested, or from the counter, with a request for one. */
  async answer(debit: Debit, timeoutMs: number): Promise<Reply> {
    const { monotonicMs, run } = this.#context;
    const endMs = monotonicMs() + timeoutMs;
    const lease = this.#isClosed ? undefined : this.#openLease(debit);
    if (!lease) return run(debit, { spend: 'each', timeoutMs, receipts: true });
    lease.requested += debit.hits;
    for (;;) {
      const nowMs = monotonicMs();
      const decision = spendFrom(lease, debit.hits, nowMs);
      if (decision) return decision;
      const leftMs = endMs - nowMs;
      if (leftMs <= 0) return { code: 'UNAVAILABLE', reason: `no lease within ${timeoutMs} ms` };
      if (!lease.asking) return this.#ask({ lease, debit, endMs }, nowMs);
      const outcome = await within(leftMs, lease.asking); // then there may be enough for this debit
      if ('value' in outcome && outcome.value.code === 'UNAVAILABLE') return outcome.value;
    }
  }

  #giveBackIdle(): void {
    const nowMs = this.#context.monotonicMs();
    for (const lease of this.#leases.values())
      if (!lease.asking && nowMs - lease.usedAtMs > this.#idleMs) this.#end(lease);
  }

  /** Voids hits that were debited before the counter was reset. */
  drop(key: CounterKey): void {
    const lease = this.#leases.get(key);
    if (!lease) return;
    lease.left = 0;
    this.#end(lease);
  }

  async close(): Promise<void> {
    this.#stop();
    this.#isClosed = true;
    for (const lease of this.#leases.values()) this.#end(lease);
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #openLease(debit: Debit): Lease | undefined {
    const known = this.#leases.get(debit.key);
    if (known?.debit.limit === debit.limit) return known;
    if (known)
      this.#end(known); // the rules have changed
    else if (this.#leases.size >= this.#maxLeases) return undefined;
    const fresh = newLease(debit, this.#context.monotonicMs());
    this.#leases.set(debit.key, fresh);
    return fresh;
  }

  /** Requests the debit's own hits and a block. */
  #ask(asked: Asked, nowMs: number): Promise<Reply> {
    const { lease } = asked;
    const block = this.#context.isLive() && !lease.isEnded ? blockSize(lease, nowMs) : 0;
    if (block === 0) return this.#askAlone(asked, nowMs);
    const pending = this.#askWithBlock(asked, block, nowMs);
    lease.asking = pending;
    return this.#track(
      pending.then((reply) => {
        lease.asking = undefined;
        if (reply.code !== 'OVER_LIMIT') return reply;
        return this.#askAlone(asked, this.#context.monotonicMs()); // nothing was spent: fewer may fit
      }),
    );
  }

  async #askWithBlock({ lease, debit, endMs }: Asked, block: number, nowMs: number): Promise<Reply> {
    const whole: Operation = { ...debit, hits: debit.hits + block, blocks: true };
    const how = { spend: 'all_or_nothing', timeoutMs: endMs - nowMs, receipts: true } as const;
    const got = await this.#context.run(whole, how);
    if (got.code === 'UNAVAILABLE') return got;
    learn(lease, got, nowMs);
    if (got.code === 'OVER_LIMIT') return got;
    const { chargedAtMs = 0 } = got;
    if (lease.isEnded) this.#refund(debit, block, chargedAtMs);
    else {
      lease.left = block;
      lease.chargedAtMs = chargedAtMs;
      const { limit } = debit;
      const validMs = (isRateLimit(limit) && rateFor(limit).leaseMs?.(lease.resetAtMs - nowMs)) || 0;
      lease.expiresAtMs = nowMs + validMs;
    }
    return { ...got, limitRemaining: got.limitRemaining + block };
  }

  async #askAlone({ lease, debit, endMs }: Asked, nowMs: number): Promise<Reply> {
    const timeoutMs = Math.max(endMs - nowMs, 0);
    const got = await this.#context.run(debit, { spend: 'each', timeoutMs, receipts: true });
    if (got.code !== 'UNAVAILABLE') learn(lease, got, nowMs);
    return got;
  }

  #end(lease: Lease): void {
    const { left, debit, chargedAtMs } = lease;
    if (this.#leases.get(debit.key) === lease) this.#leases.delete(debit.key);
    lease.isEnded = true;
    lease.left = 0;
    if (left > 0) this.#refund(debit, left, chargedAtMs);
  }

  #refund(debit: Debit, hits: number, chargedAtMs: number): void {
    const refund: Operation = { ...debit, kind: 'refund', hits, blocks: false, chargedAtMs };
    const refunded = after(
      this.#context.run(refund, { spend: 'each', timeoutMs: GIVE_BACK_TIMEOUT_MS }),
      () => undefined,
    );
    void this.#track(Promise.resolve(refunded));
  }

  #track<T>(running: Promise<T>): Promise<T> {
    this.#running.add(running);
    return running.finally(() => this.#running.delete(running));
  }
}

const newLease = (debit: Debit, nowMs: number): Lease => ({
  debit,
  left: 0,
  expiresAtMs: 0,
  chargedAtMs: 0,
  rest: 0,
  resetAtMs: Number.POSITIVE_INFINITY,
  usedAtMs: nowMs,
  requested: 0,
  countedSinceMs: nowMs,
  asking: undefined,
  isEnded: false,
});

function learn(lease: Lease, { limitRemaining, durationUntilResetMs }: Decision, calledAtMs: number): void {
  lease.rest = limitRemaining;
  lease.resetAtMs = calledAtMs + durationUntilResetMs;
}

function spendFrom(lease: Lease, hits: number, nowMs: number): LedgerEntry | undefined {
  lease.usedAtMs = nowMs;
  if (lease.expiresAtMs <= nowMs || lease.left < hits) return undefined;
  lease.left -= hits;
  const limitRemaining = lease.rest + lease.left;
  return {
    code: 'OK',
    hitsBefore: Math.max(fullCapacity(lease.debit.limit) - limitRemaining - hits, 0),
    limitRemaining,
    durationUntilResetMs: Math.max(Math.floor(lease.resetAtMs - nowMs), 0),
    retryAfterMs: 0,
    delayMs: 0,
    soft: false,
    fromLease: true,
    chargedAtMs: lease.chargedAtMs,
  };
}

/** The number of hits to lease: 0 while the counter's rate or its remaining hits are unknown. */
function blockSize(lease: Lease, nowMs: number): number {
  // the caller requests more hits at once than are left: keep these
  if (lease.left > 0 && lease.expiresAtMs > nowMs) return 0;
  const elapsedMs = nowMs - lease.countedSinceMs;
  const perMs = lease.requested / Math.max(elapsedMs, 1);
  if (elapsedMs > LEASE_MS) [lease.requested, lease.countedSinceMs] = [0, nowMs];
  const rest = nowMs < lease.resetAtMs ? lease.rest : fullCapacity(lease.debit.limit);
  return Math.floor(Math.min(perMs * LEASE_MS, rest * SHARE_OF_REST));
}
