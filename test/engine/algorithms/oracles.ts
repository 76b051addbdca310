import type { FixedWindowLimit } from '../../../src/engine/algorithms/fixed-window.ts';
import { fullCapacity } from '../../../src/engine/holds/limits.ts';
import type { RateLimitBy } from '../../helpers/limits.ts';

/** The oracle's answer to a request. */
export interface Said {
  readonly accepted: boolean;
  readonly delayMs: number;
}

/**
 * Decides requests by an algorithm's definition alone, in integers of any size; remembers all requests.
 *
 * @param reader  another limit on the same counter; absent: the oracle's own limit
 */
export type Oracle<L> = (atMs: number, hits: number, reader?: L) => Said;

export interface Hits {
  readonly atMs: number;
  readonly hits: number;
}

const passes = (accepted: boolean): Said => ({ accepted, delayMs: 0 });
const total = (list: readonly Hits[]): bigint => list.reduce((sum, { hits }) => sum + BigInt(hits), 0n);

/** The list with a request's hits added; negative hits remove the newest. */
function add(list: readonly Hits[], atMs: number, hits: number): Hits[] {
  if (hits >= 0) return [...list, { atMs, hits }];
  let left = -hits;
  return list
    .toReversed()
    .flatMap((one) => {
      const taken = Math.min(one.hits, left);
      left -= taken;
      return one.hits > taken ? [{ ...one, hits: one.hits - taken }] : [];
    })
    .toReversed();
}

/** Counts all requested hits since the window began. */
export function fixedWindow(limit: FixedWindowLimit, windowOf: (atMs: number) => unknown): Oracle<FixedWindowLimit> {
  let asked: Hits[] = [];
  return (atMs, hits, reader = limit) => {
    const [first] = asked;
    const over =
      limit.alignment === 'first_hit'
        ? first && atMs >= first.atMs + limit.windowMs
        : first && windowOf(first.atMs) !== windowOf(atMs);
    if (over) asked = [];
    asked = add(asked, atMs, hits).filter((one) => one.hits > 0);
    return passes(hits < 0 || total(asked) <= fullCapacity(reader));
  };
}

/**
 * Counts accepted hits younger than the window; refused ones, if counted, fill it up to the limit, then displace the
 * oldest.
 */
export function slidingWindowLog(limit: RateLimitBy<'sliding_window_log'>): Oracle<RateLimitBy<'sliding_window_log'>> {
  let known: Hits[] = [];
  return (atMs, hits, reader = limit) => {
    known = known.filter((one) => atMs - one.atMs < limit.windowMs);
    const before = Number(total(known));
    const accepted = hits < 0 || before + (hits || 1) <= fullCapacity(reader);
    if (accepted || reader.countDenied) known = add(known, atMs, Math.min(hits, fullCapacity(reader)));
    for (let excess = Number(total(known)) - Math.max(before, fullCapacity(reader)); excess > 0; ) {
      const [oldest = { atMs, hits: 0 }, ...newer] = known;
      known = oldest.hits > excess ? [{ ...oldest, hits: oldest.hits - excess }, ...newer] : newer;
      excess -= oldest.hits;
    }
    return passes(accepted);
  };
}

/**
 * Counts accepted hits of this window, plus the fraction of the previous window's that the sliding window still covers.
 */
export function slidingWindowCounter(
  limit: RateLimitBy<'sliding_window_counter'>,
): Oracle<RateLimitBy<'sliding_window_counter'>> {
  const { windowMs } = limit;
  let known: Hits[] = [];
  return (atMs, hits, reader = limit) => {
    const windowsAgo = (one: Hits) => Math.floor(atMs / windowMs) - Math.floor(one.atMs / windowMs);
    known = known.filter((one) => windowsAgo(one) <= 1);
    const left = BigInt(windowMs - (atMs % windowMs));
    const weighted = total(known.filter((one) => windowsAgo(one) === 1)) * left;
    const covered = (weighted + (reader.rounding === 'up' ? BigInt(windowMs) - 1n : 0n)) / BigInt(windowMs);
    const used = total(known.filter((one) => windowsAgo(one) === 0)) + covered;
    const accepted = hits < 0 || used + BigInt(hits || 1) <= fullCapacity(reader);
    if (accepted) known = add(known, atMs, hits);
    return passes(accepted);
  };
}

/** Counts accepted hits of the current part and of the n parts before it. */
export function slidingWindowBuckets(
  limit: RateLimitBy<'sliding_window_buckets'>,
): Oracle<RateLimitBy<'sliding_window_buckets'>> {
  const partMs = limit.windowMs / limit.buckets;
  let known: Hits[] = [];
  return (atMs, hits, reader = limit) => {
    known = known.filter((one) => Math.floor(atMs / partMs) - Math.floor(one.atMs / partMs) <= limit.buckets);
    const accepted = hits < 0 || total(known) + BigInt(hits || 1) <= fullCapacity(reader);
    if (accepted) known = add(known, atMs, hits);
    return passes(accepted);
  };
}

/**
 * Token buckets and leaky buckets have the same bound: since any moment, admitted hits are at most the bucket's size
 * plus the tokens refilled (or hits leaked) since then. A request waits for missing tokens.
 */
export function bucket(limit: RateLimitBy<'token_bucket'> | RateLimitBy<'leaky_bucket'>): Oracle<never> {
  const { windowMs, requestsPerUnit, maxDelayMs } = limit;
  const tickMs = 'refill' in limit && limit.refill === 'interval' ? windowMs : 1;
  const ticks = (atMs: number) => BigInt(Math.floor(atMs / tickMs));
  const perTick = BigInt(requestsPerUnit) * BigInt(tickMs); // tokens × windowMs
  const room = BigInt(fullCapacity(limit));
  const known: Hits[] = [];
  return (atMs, hits) => {
    const asked = hits || 1;
    const all = [...known, { atMs, hits: asked }];
    let missing = 0n;
    for (const [at, since] of all.entries()) {
      const came = (ticks(atMs) - ticks(since.atMs)) * perTick;
      const over = (total(all.slice(at)) - room) * BigInt(windowMs) - came;
      if (over > missing) missing = over;
    }
    const waitTicks = missing > 0n ? (missing + perTick - 1n) / perTick : 0n;
    const delayMs = waitTicks > 0n ? Number((ticks(atMs) + waitTicks) * BigInt(tickMs)) - atMs : 0;
    const accepted = asked <= room && delayMs <= maxDelayMs;
    if (accepted && hits > 0) known.push({ atMs, hits });
    return { accepted, delayMs: accepted && hits > 0 ? delayMs : 0 };
  };
}

/**
 * Buckets of several limits on one counter: spent tokens are refilled (or leak out) at the rate of the next request's
 * limit, and are forgotten when they would be gone at the rate of the last one's.
 */
export function sharedBucket(
  limit: RateLimitBy<'token_bucket'> | RateLimitBy<'leaky_bucket'>,
): Oracle<RateLimitBy<'token_bucket'> | RateLimitBy<'leaky_bucket'>> {
  const windowMs = BigInt(limit.windowMs);
  let spent = 0n;
  let sinceMs = 0n;
  let forgottenAtMs = 0n;
  return (atMs, hits, reader = limit) => {
    const now = BigInt(atMs);
    const tickMs = 'refill' in reader && reader.refill === 'interval' ? windowMs : 1n;
    const perMs = BigInt(reader.requestsPerUnit);
    const tickedMs = now - (now % tickMs);
    if (forgottenAtMs <= now) [spent, sinceMs] = [0n, tickedMs];
    const came = tickedMs > sinceMs ? (tickedMs - sinceMs) * perMs : 0n;
    spent = came > spent ? 0n : spent - came;
    if (tickedMs > sinceMs) sinceMs = tickedMs;
    /** The first boundary by which `some` has been refilled. */
    const goneAtMs = (some: bigint): bigint => {
      if (some <= 0n) return now;
      let atMsThen = sinceMs - (sinceMs % tickMs) + (some / perMs / tickMs) * tickMs;
      while ((atMsThen - sinceMs) * perMs < some) atMsThen += tickMs;
      return atMsThen;
    };
    const asked = BigInt(hits || 1);
    const room = BigInt(fullCapacity(reader));
    const delayMs = Number(goneAtMs(spent + (asked - room) * windowMs) - now);
    const accepted = asked < 0n || (asked <= room && delayMs <= reader.maxDelayMs);
    if (accepted) spent += BigInt(hits) * windowMs;
    if (spent < 0n) spent = 0n;
    forgottenAtMs = goneAtMs(spent);
    return { accepted, delayMs: accepted && hits > 0 ? delayMs : 0 };
  };
}
