import { capacityOf, type Decision } from '../algorithms/limit.ts';
import type { Clock } from '../clock.ts';
import type { CounterKey } from './key.ts';
import type { Hit, Store, StoreState, Unavailable } from './store.ts';

export interface LeaseOptions {
  /** Of this process. */
  readonly clock: Clock;
  /** Leases at a time; hits on further counters are counted one by one. */
  readonly maxLeases: number;
  /** What was not used for so long is given back. */
  readonly idleMs: number;
}

/** Part of what a counter has left that one lease takes, so that what is left is shared while it shrinks. */
const SHARE_OF_REST = 1 / 20;
/** For how long a lease should last at the rate of its counter. */
const LEASE_MS = 100;
/** The longest that tokens stay leased: a bucket has no window's end. What is refilled meanwhile may pass besides. */
export const LONGEST_LEASE_MS = 1_000;

/** How long giving back may take; a window must last longer than twice that, so that the next one is never given hits of this one. */
const GIVE_BACK_TIMEOUT_MS = 1_000;

interface Lease {
  readonly hit: Hit;
  /** Hits that may still be answered from it, until `expiresAtMs`. */
  left: number;
  expiresAtMs: number;
  /** What the counter had left, when it was asked last, besides what was leased then; until `resetAtMs`. */
  rest: number;
  resetAtMs: number;
  usedAtMs: number;
  /** Hits that were wanted since `countedSinceMs`. */
  wanted: number;
  countedSinceMs: number;
  /** More is being asked for: resolves when it has come, with the reason where it has not. */
  asking: Promise<Unavailable | undefined> | undefined;
}

/**
 * Answers hits of limits that say `leased` from blocks that it has debited from the counter before: never more than the limit passes,
 * whatever becomes of this process (of a bucket, besides, what is refilled while a lease lasts), and less by what is leased and not used. A block lasts about `LEASE_MS` at the counter's rate, and is a small part of what
 * the counter has left.
 *
 * A fixed window's lease ends with the window, counted from before it was asked for. What is left is given back when it is not used, and at the end.
 */
export class LeasingStore implements Store {
  readonly atomic: Store['atomic'];
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #maxLeases: number;
  readonly #leases = new Map<CounterKey, Lease>();
  readonly #sweep: NodeJS.Timeout;

  constructor(store: Store, { clock, maxLeases, idleMs }: LeaseOptions) {
    this.atomic = store.atomic;
    this.#store = store;
    this.#clock = clock;
    this.#maxLeases = maxLeases;
    this.#sweep = setInterval(() => this.#giveBackIdle(idleMs), idleMs).unref();
  }

  /** Hits that are leased now and not used: by so much fewer than its limit may pass, at most. */
  get leased(): number {
    const nowMs = this.#clock();
    let sum = 0;
    for (const { left, expiresAtMs } of this.#leases.values()) if (expiresAtMs > nowMs) sum += left;
    return sum;
  }

  async apply(hits: Parameters<Store['apply']>[0], how: Parameters<Store['apply']>[1]): ReturnType<Store['apply']> {
    if (how.spend !== 'each' || !hits.some(isLeased)) return this.#store.apply(hits, how);
    const others = hits.filter((hit) => !isLeased(hit));
    const [ofStore, ...ofLeases] = await Promise.all([
      others.length > 0 ? this.#store.apply(others, how) : [],
      ...hits.filter(isLeased).map((hit) => this.#answer(hit, how.timeoutMs)),
    ]);
    let [nextOfStore, nextOfLeases] = [0, 0];
    return hits.map((hit) => (isLeased(hit) ? ofLeases[nextOfLeases++] : ofStore[nextOfStore++]) ?? nobody);
  }

  state(): StoreState {
    return this.#store.state();
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    await Promise.all(Array.from(this.#leases.values(), (lease) => this.#giveBack(lease)));
    await this.#store.close();
  }

  async #answer(hit: Hit, timeoutMs: number): Promise<Decision | Unavailable> {
    const lease = this.#leaseOf(hit);
    if (!lease) return ask(this.#store, hit, timeoutMs);
    const endMs = performance.now() + timeoutMs;
    lease.wanted += hit.hits;
    for (;;) {
      const nowMs = this.#clock();
      const decision = spendFrom(lease, hit.hits, nowMs);
      if (decision) return decision;
      const leftMs = endMs - performance.now();
      if (leftMs <= 0) return { code: 'UNAVAILABLE', reason: `no lease within ${timeoutMs} ms` };
      if (!lease.asking) return this.#askForMore(lease, hit, leftMs, nowMs);
      const failed = await lease.asking; // else there may be enough for this one
      if (failed) return failed;
    }
  }

  #leaseOf(hit: Hit): Lease | undefined {
    const known = this.#leases.get(hit.key);
    if (known?.hit.limit === hit.limit) return known;
    if (known)
      void this.#giveBack(known); // the rules have changed
    else if (this.#leases.size >= this.#maxLeases) return undefined;
    const fresh = newLease(hit, this.#clock());
    this.#leases.set(hit.key, fresh);
    return fresh;
  }

  /** Asks for the hit's own hits and for a block. */
  #askForMore(lease: Lease, hit: Hit, timeoutMs: number, nowMs: number): Promise<Decision | Unavailable> {
    const block = blockOf(lease, nowMs);
    if (block === 0) return this.#askAlone(lease, hit, timeoutMs, nowMs);
    const asked = this.#askWithBlock(lease, hit, block, timeoutMs, nowMs);
    lease.asking = asked.then((got) => {
      lease.asking = undefined;
      return got.code === 'UNAVAILABLE' ? got : undefined;
    });
    return asked;
  }

  async #askWithBlock(lease: Lease, hit: Hit, block: number, timeoutMs: number, nowMs: number) {
    const whole = { ...hit, hits: hit.hits + block, blocks: true };
    const [got = nobody] = await this.#store.apply([whole], { spend: 'all_or_nothing', timeoutMs });
    if (got.code === 'UNAVAILABLE') return got;
    learn(lease, got, nowMs);
    if (got.code === 'OVER_LIMIT') return this.#askAlone(lease, hit, timeoutMs, nowMs); // nothing was spent: fewer may fit
    lease.left = block;
    lease.expiresAtMs = hit.limit.algorithm === 'fixed_window' ? lease.resetAtMs : nowMs + LONGEST_LEASE_MS;
    return { ...got, limitRemaining: got.limitRemaining + block };
  }

  async #askAlone(lease: Lease, hit: Hit, timeoutMs: number, nowMs: number) {
    const got = await ask(this.#store, hit, timeoutMs);
    if (got.code !== 'UNAVAILABLE') learn(lease, got, nowMs);
    return got;
  }

  #giveBackIdle(idleMs: number): void {
    const nowMs = this.#clock();
    for (const lease of this.#leases.values())
      if (!lease.asking && nowMs - lease.usedAtMs > idleMs) void this.#giveBack(lease);
  }

  async #giveBack(lease: Lease): Promise<void> {
    const { left, hit, expiresAtMs } = lease;
    if (this.#leases.get(hit.key) === lease) this.#leases.delete(hit.key);
    lease.left = 0;
    const isSafe = hit.limit.algorithm !== 'fixed_window' || expiresAtMs - this.#clock() > 2 * GIVE_BACK_TIMEOUT_MS;
    const back = [{ ...hit, hits: -left, blocks: false }];
    if (left > 0 && isSafe) await this.#store.apply(back, { spend: 'each', timeoutMs: GIVE_BACK_TIMEOUT_MS });
  }
}

/** Looks and give-backs concern the counter itself. */
const isLeased = ({ limit, hits }: Hit): boolean => limit.consistency === 'leased' && hits > 0;

const nobody: Unavailable = { code: 'UNAVAILABLE', reason: 'the store gave no answer' };

const newLease = (hit: Hit, nowMs: number): Lease => ({
  ...{ hit, left: 0, expiresAtMs: 0, rest: 0, resetAtMs: Number.POSITIVE_INFINITY },
  ...{ usedAtMs: nowMs, wanted: 0, countedSinceMs: nowMs, asking: undefined },
});

async function ask(store: Store, hit: Hit, timeoutMs: number): Promise<Decision | Unavailable> {
  const [got = nobody] = await store.apply([hit], { spend: 'each', timeoutMs });
  return got;
}

function learn(lease: Lease, { limitRemaining, durationUntilResetMs }: Decision, askedMs: number): void {
  lease.rest = limitRemaining;
  lease.resetAtMs = askedMs + durationUntilResetMs;
}

function spendFrom(lease: Lease, hits: number, nowMs: number): Decision | undefined {
  lease.usedAtMs = nowMs;
  if (lease.expiresAtMs <= nowMs || lease.left < hits) return undefined;
  lease.left -= hits;
  const limitRemaining = lease.rest + lease.left;
  return {
    code: 'OK',
    hitsBefore: Math.max(capacityOf(lease.hit.limit) - limitRemaining - hits, 0),
    limitRemaining,
    durationUntilResetMs: Math.max(lease.resetAtMs - nowMs, 0),
    retryAfterMs: 0,
    delayMs: 0,
    soft: false,
    fromLease: true,
  };
}

/** How many hits to lease: none while it is not known how fast the counter is used, or what it has left. */
function blockOf(lease: Lease, nowMs: number): number {
  if (lease.left > 0 && lease.expiresAtMs > nowMs) return 0; // it wants more hits at once than there are: the rest stays
  const elapsedMs = nowMs - lease.countedSinceMs;
  const perMs = lease.wanted / Math.max(elapsedMs, 1);
  if (elapsedMs > LEASE_MS) [lease.wanted, lease.countedSinceMs] = [0, nowMs];
  const rest = nowMs < lease.resetAtMs ? lease.rest : capacityOf(lease.hit.limit);
  return Math.floor(Math.min(perMs * LEASE_MS, rest * SHARE_OF_REST));
}
