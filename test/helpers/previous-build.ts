import type { Redis as Connection } from 'ioredis';
import type { Clock } from '../../src/base/clock.ts';
import type { Limit } from '../../src/engine/algorithms/index.ts';
import type { Decision, Spend } from '../../src/engine/algorithms/limit.ts';
import { type RequestOperation, signedHits } from '../../src/engine/backends/backend.ts';
import type { MemcachedServers } from '../../src/engine/backends/memcached/servers.ts';
import type { Limit as PreviousLimit } from '../fixtures/previous-build/algorithms/limit.ts';
import { createGuard } from '../fixtures/previous-build/stores/guard.ts';
import { createCounterKeys as previousKeys } from '../fixtures/previous-build/stores/key.ts';
import { LeasingStore } from '../fixtures/previous-build/stores/leases.ts';
import { createMemcachedStore } from '../fixtures/previous-build/stores/memcached/store.ts';
import { decodeBatch, encodeBatch } from '../fixtures/previous-build/stores/redis/batch.ts';
import { script } from '../fixtures/previous-build/stores/redis/script.ts';
import { createRedisStore } from '../fixtures/previous-build/stores/redis/store.ts';
import { sharedCounters } from '../fixtures/previous-build/stores/shared-counters.ts';
import type { Hit, Store, Unavailable } from '../fixtures/previous-build/stores/store.ts';
import { labelOf } from './limits.ts';

/** The part of a process of the previous build that counts. */
export interface PreviousInstance {
  /** Decides one request, with a decision for each debit. */
  debit(request: readonly RequestOperation[], timeoutMs: number): Promise<readonly (Decision | Unavailable)[]>;
  close(): Promise<void>;
}

/** Options of the previous build, as its `serve` set them. */
export interface PreviousOptions {
  readonly clock: Clock;
  /** Redis also decides by that clock. */
  readonly replay?: boolean;
  readonly leases?: boolean;
  readonly local?: boolean;
}

/** @param connection  closed with the instance */
export function previousOnRedis(connection: Connection, options: PreviousOptions): PreviousInstance {
  const { clock, replay = false, leases = false, local = false } = options;
  let store = createRedisStore(connection, clock, { replay });
  if (leases) store = new LeasingStore(store, { clock, maxLeases: 100, idleMs: 50 });
  if (local) store = createGuard(store, { clock, maxCounters: 100, lookIntervalMs: 50, timeoutMs: 500 });
  return instanceOf(store);
}

export const previousOnMemcached = (servers: MemcachedServers, clock: Clock): PreviousInstance =>
  instanceOf(createMemcachedStore(servers as unknown as Parameters<typeof createMemcachedStore>[0], clock)); // its clients name `health` differently

const instanceOf = (store: Store): PreviousInstance => ({
  debit: (request, timeoutMs) => store.apply(request.map(hitOf), { spend: 'each', timeoutMs }),
  close: () => store.close(),
});

const hitOf = (debit: RequestOperation): Hit => ({ ...debit, hits: signedHits(debit) }) as unknown as Hit; // counter keys are strings in both builds

/** The Redis script of the previous build, and one call of it. */
export const previousScript = {
  text: script.text,
  encode: (request: readonly RequestOperation[], spend: Spend, nowMs: number) =>
    encodeBatch([{ hits: request.map(hitOf), spend }], nowMs),
  decode: (reply: Buffer, request: readonly RequestOperation[], spend: Spend, nowMs: number) =>
    decodeBatch(reply, [{ hits: request.map(hitOf), spend }], nowMs)[0] ?? [],
};

/** Prefixes of counter names that differ from the previous build's, because the counters' states differ. */
const renamed: readonly (readonly [now: string, before: string])[] = [['token_bucket.2|', 'token_bucket|']];

/** The limit with the counter name of the previous build. */
export function previousLimit<L extends Limit>(limit: L) {
  const [now = '', before = ''] = renamed.find(([start]) => limit.counter.startsWith(start)) ?? [];
  return { ...limit, ...labelOf(limit), counter: before + limit.counter.slice(now.length) };
}

/** The limit for the previous build, which makes counter names even for algorithms that it does not have. */
const asPrevious = (limit: object) => limit as PreviousLimit;

/** The key of a limit's counter in the previous build. */
export const previousKeyOf = (limit: Limit, domain: string, entry: { readonly key: string; readonly value: string }) =>
  previousKeys('')(asPrevious(previousLimit(limit)), domain, [entry]) as string;

/** The key and form of a counter that the previous build shares with envoyproxy/ratelimit. */
export const previousSharedCounter = (
  limit: Limit,
  domain: string,
  entry: { readonly key: string; readonly value: string },
  clock: Clock,
) =>
  sharedCounters({ prefix: '', own: previousKeys(''), jitterMaxSeconds: 0, clock, random: () => 0 })(
    asPrevious({ ...previousLimit(limit), unit: 'HOUR', unitMultiplier: 1 }),
    domain,
    [entry],
  );
