import { capacityOf, type Decision, type Limit, softLimitOf } from '../algorithms/limit.ts';
import type { Clock } from '../clock.ts';
import type { CounterKey } from './key.ts';
import { createMemoryStore } from './memory.ts';
import type { Hit, Store, Unavailable } from './store.ts';

export interface GuardOptions {
  readonly clock: Clock;
  /** Counters that are kept in this process while the store is away. */
  readonly maxCounters: number;
  /** How often it is looked whether the store is back while something is to be counted there. */
  readonly lookIntervalMs: number;
  readonly timeoutMs: number;
}

/** When to come again who is refused since nothing can be counted. */
const RETRY_MS = 1_000;
/** For how long what is owed is brought back at the end, where the store is there: what is left then is lost. */
const CLOSE_WITHIN_MS = 1_000;
/** Counters that are brought back at a time, so that requests are not held up. */
const SLICE = 64;

/**
 * Answers for the store where that cannot, by the policy of each limit; where one of a request's limits has none, the request has no answer.
 *
 * What was counted here is counted in the store, too, when that is back: as far as its limit has room, and what its window still remembers.
 * Until then, and for as long as that takes, the store knows less than was admitted.
 */
export function createGuard(store: Store, { clock, maxCounters, lookIntervalMs, timeoutMs }: GuardOptions): Store {
  const local = createMemoryStore(clock, { maxCounters });
  const owed = new Map<CounterKey, Hit>();
  let looking: NodeJS.Timeout | undefined;

  const answerFor = async (hits: readonly Hit[], how: Parameters<Store['apply']>[1]): Promise<readonly Decision[]> => {
    const counted = hits.filter(({ limit }) => limit.onStoreFailure === 'local');
    const decisions = await local.apply(counted.map(localHit), how);
    for (const hit of counted) if (owed.size < maxCounters) owed.set(hit.key, hit);
    if (counted.length > 0) look();
    let next = 0;
    return hits.map((hit): Decision => {
      const policy = hit.limit.onStoreFailure ?? 'deny'; // each has one: `apply` has looked
      if (policy !== 'local') return answerOf[policy](hit);
      return { ...(decisions[next++] as Decision), degraded: policy }; // memory decides each
    });
  };

  const look = (): void => {
    looking ??= setInterval(() => {
      if (store.state().ready) void bringBack();
    }, lookIntervalMs).unref();
  };

  const bringBack = async (): Promise<void> => {
    const slice = [...owed.values()].slice(0, SLICE);
    for (const { key } of slice) owed.delete(key);
    for (const hit of slice) if (!(await repay(store, local, hit, timeoutMs))) owed.set(hit.key, hit);
    if (owed.size > 0) return;
    clearInterval(looking);
    looking = undefined;
  };

  return {
    atomic: store.atomic,
    async apply(hits, how) {
      const answers = await store.apply(hits, how);
      if (!answers.some(isUnavailable)) return answers;
      const failed = hits.filter((_, at) => isUnavailable(answers[at]));
      if (failed.some(({ limit }) => limit.onStoreFailure === undefined)) return answers;
      const decisions = await answerFor(failed, how);
      let next = 0;
      return answers.map((answer) => (isUnavailable(answer) ? (decisions[next++] as Decision) : answer)); // one for each that failed
    },
    state: () => store.state(),
    async close() {
      clearInterval(looking);
      const endMs = performance.now() + CLOSE_WITHIN_MS;
      while (owed.size > 0 && store.state().ready && performance.now() < endMs) await bringBack();
      await Promise.all([store.close(), local.close()]);
    },
  };
}

const isUnavailable = (answer: Decision | Unavailable | undefined): boolean => answer?.code === 'UNAVAILABLE';

const untold = { hitsBefore: 0, retryAfterMs: 0, durationUntilResetMs: 0, delayMs: 0, soft: false } as const;

const answerOf = {
  allow: ({ limit }: Hit): Decision => ({
    ...untold,
    code: 'OK',
    limitRemaining: softLimitOf(limit),
    degraded: 'allow',
  }),
  deny: ({ limit }: Hit): Decision => ({
    ...untold,
    code: 'OVER_LIMIT',
    hitsBefore: softLimitOf(limit),
    limitRemaining: 0,
    retryAfterMs: RETRY_MS,
    durationUntilResetMs: RETRY_MS,
    degraded: 'deny',
  }),
} as const;

/** What a limit comes to in one of the processes that share it. */
const shares = new WeakMap<Limit, Limit>();

function localHit(hit: Hit): Hit {
  const { key, limit, hits, blocks } = hit;
  return { key, limit: shareOf(limit), hits, blocks };
}

function shareOf(limit: Limit): Limit {
  const known = shares.get(limit);
  if (known) return known;
  const { localShare: share = 1 } = limit;
  const part = (hits: number): number => Math.floor(hits / share);
  const own = { ...limit, requestsPerUnit: part(limit.requestsPerUnit), soft: part(limit.soft) };
  const whole: Limit = 'burst' in own ? { ...own, burst: Math.max(part(own.burst), 1) } : own;
  shares.set(limit, whole);
  return whole;
}

/**
 * Counts in the store what was counted here, and forgets it here.
 *
 * @returns false  the store could not be asked
 */
async function repay(store: Store, local: Store, hit: Hit, timeoutMs: number): Promise<boolean> {
  const how = { spend: 'each', timeoutMs } as const;
  const [here] = await local.apply([{ ...localHit(hit), hits: 0 }], how);
  const spent = here && 'hitsBefore' in here ? Math.min(here.hitsBefore, capacityOf(shareOf(hit.limit))) : 0;
  if (spent <= 0) return true; // its window is over
  const owed = { ...hit, blocks: false };
  const [answer] = await store.apply([{ ...owed, hits: spent }], how);
  if (!answer || !('limitRemaining' in answer)) return false;
  if (answer.code === 'OVER_LIMIT' && answer.limitRemaining > 0)
    await store.apply([{ ...owed, hits: answer.limitRemaining }], how); // the limit has no room for all, and has counted none
  await local.apply([{ ...localHit(hit), hits: -spent }], how);
  return true;
}
