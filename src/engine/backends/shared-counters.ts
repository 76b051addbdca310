import type { Clock } from '../../base/clock.ts';
import { epochCounter } from '../algorithms/fixed-window.ts';
import { unitMs } from '../algorithms/limit.ts';
import type { Limit } from '../holds/limits.ts';
import type { CounterEntry, CounterKey, CounterKeys, Counters } from './key.ts';

interface SharedCountersOptions {
  /** Precedes every key. */
  readonly prefix: string;
  /** Keys of counters that envoyproxy/ratelimit could not have. */
  readonly own: CounterKeys;
  /** Jitter of the time that a counter is kept: up to one second less than this is added to it; 0 to add nothing. */
  readonly jitterMaxSeconds: number;
  /** This process's clock, which determines the window of a hit, as in each instance of envoyproxy/ratelimit. */
  readonly clock: Clock;
  /** From 0 to below 1. */
  readonly random: () => number;
}

/**
 * Counters that envoyproxy/ratelimit counts on as well: fixed windows of one unit, under its keys. The parts of such a
 * key are only concatenated, so two counters may collide. Limits that envoyproxy/ratelimit does not have use separate
 * counters.
 *
 * @example `demo_user_alice_1700000040` for a limit per minute
 */
export function sharedCounters(options: SharedCountersOptions): Counters {
  const { prefix, own, jitterMaxSeconds, clock, random } = options;
  return (limit, domain, entries) => {
    if (!isShared(limit)) return { key: own(limit, domain, entries) };
    const nowMs = clock();
    const windowStartMs = nowMs - (nowMs % limit.windowMs);
    const key = `${prefix}${domain}_${entries.map(join).join('')}${windowStartMs / 1000}`;
    const ttlMs = limit.windowMs + Math.floor(random() * jitterMaxSeconds) * 1000;
    return { key: key as CounterKey, shared: { windowStartMs, ttlMs } }; // here, and in key.ts, a text becomes a key
  };
}

const join = ({ key, value }: CounterEntry): string => `${key}_${value}_`;

const sharedNames: ReadonlySet<string> = new Set(Object.values(unitMs).map(epochCounter));

/** Whether envoyproxy/ratelimit has such limits: with windows from the epoch, without a soft part, one per node. */
function isShared(limit: Limit): boolean {
  return limit.soft === 0 && sharedNames.has(limit.counter);
}
