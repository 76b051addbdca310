import { capacityOf, type Decision, type Limit, NEVER_MS } from '../algorithms/limit.ts';
import type { Clock } from '../clock.ts';
import type { CounterKey } from './key.ts';
import type { Hit, Store, Unavailable } from './store.ts';

/** A store that remembers refusals. */
export interface DenyCache extends Store {
  readonly counts: DenyCacheCounts;
  /** Refusals that are remembered now. */
  size(): number;
}

/** What a cache holds and has done. */
export type DenyCacheState = Pick<DenyCache, 'counts' | 'size'>;

/** What became of the looks into the cache, since the start. */
export interface DenyCacheCounts {
  readonly lookups: number;
  readonly hits: number;
  /** Forgotten since their time was over, and for want of room. */
  readonly expired: number;
  readonly evicted: number;
  /** Remembered anew while they still were. */
  readonly overwritten: number;
}

interface Refusal {
  /** The limit that refused: under another one the same counter may have room. */
  readonly limit: Limit;
  /** No hit passes before. */
  readonly untilMs: number;
  readonly resetAtMs: number;
  /** The counter stands above the limit, so that even a look is refused. */
  readonly isAbove: boolean;
}

/** What an entry takes besides its key's characters, about: the map's slot, the refusal, the strings' heads. */
const ENTRY_BYTES = 200;

/**
 * Refuses what a store has refused before, without asking it, until a single hit could pass again by what the store said then: counted
 * from when it was asked, so never a moment too long, unless another instance gives hits back in between. The oldest
 * entries make room for new ones.
 *
 * Where a request spends all or nothing and one of its blocking limits is known to refuse, the others are only looked at.
 *
 * @param clock     of this process
 * @param maxBytes  about what the entries may take
 */
export function createDenyCache(store: Store, { clock, maxBytes }: { clock: Clock; maxBytes: number }): DenyCache {
  const refusals = new Map<CounterKey, Refusal>();
  const counts = { lookups: 0, hits: 0, expired: 0, evicted: 0, overwritten: 0 };
  let bytes = 0;
  let givenBack = 0; // times: a refusal that was asked for before the last one may no longer hold

  const forget = (key: CounterKey): void => {
    if (refusals.delete(key)) bytes -= bytesOf(key);
  };
  const find = ({ key, limit, hits }: Hit, nowMs: number): Refusal | undefined => {
    counts.lookups++;
    if (hits < 0) {
      givenBack++;
      forget(key);
    }
    const known = refusals.get(key);
    if (!known) return undefined;
    if (known.untilMs <= nowMs) {
      counts.expired++;
      forget(key);
      return undefined;
    }
    return isSame(known.limit, limit) && (hits > 0 || known.isAbove) ? known : undefined;
  };
  const remember = (hit: Hit, decision: Decision, askedMs: number, isCharged: boolean): void => {
    const forMs = refusedForMs(hit, decision);
    if (forMs <= 0) return;
    if (refusals.has(hit.key)) counts.overwritten++;
    forget(hit.key); // what is remembered anew is the newest
    const { limit } = hit;
    const resetAtMs = askedMs + decision.durationUntilResetMs;
    refusals.set(hit.key, { limit, untilMs: askedMs + forMs, resetAtMs, isAbove: isCharged || hit.hits === 0 });
    bytes += bytesOf(hit.key);
    for (const key of refusals.keys()) {
      if (bytes <= maxBytes) break;
      counts.evicted++;
      forget(key);
    }
  };

  return {
    atomic: store.atomic,
    counts,
    size: () => refusals.size,
    async apply(hits, how) {
      const askedMs = clock();
      const known = hits.map((hit) => find(hit, askedMs));
      const isRefused = known.some((refusal, at) => refusal && hits[at]?.blocks);
      const mayCharge = how.spend === 'each' || !isRefused;
      const asked = hits.filter((_, at) => !known[at]).map((hit) => (mayCharge ? hit : { ...hit, hits: 0 }));
      const before = givenBack;
      const answers = asked.length > 0 ? await store.apply(asked, how) : [];
      for (const [at, hit] of asked.entries()) {
        const answer = answers[at];
        if (answer?.code === 'OVER_LIMIT' && givenBack === before) remember(hit, answer, askedMs, how.spend === 'each');
      }
      let next = 0;
      return hits.flatMap((hit, at): (Decision | Unavailable)[] => {
        const refusal = known[at];
        if (refusal) counts.hits++;
        const answer = refusal ? refused(hit, refusal, askedMs) : answers[next++];
        return answer ? [answer] : [];
      });
    },
    state: () => store.state(),
    async close() {
      refusals.clear();
      await store.close();
    },
  };
}

const bytesOf = (key: CounterKey): number => ENTRY_BYTES + key.length;

const patienceOf = (limit: Limit): number => ('maxDelayMs' in limit ? limit.maxDelayMs : 0);

function isSame(one: Limit, other: Limit): boolean {
  return (
    one === other ||
    (one.requestsPerUnit === other.requestsPerUnit &&
      capacityOf(one) === capacityOf(other) &&
      patienceOf(one) === patienceOf(other))
  );
}

/** How long even a single hit is refused after this refusal; 0 where that is not known. */
function refusedForMs({ limit, hits }: Hit, { limitRemaining, durationUntilResetMs, retryAfterMs }: Decision): number {
  if ('countDenied' in limit && limit.countDenied) return 0; // each further refusal puts it off
  if (limitRemaining > 0) return 0;
  if (limit.algorithm === 'fixed_window') return durationUntilResetMs;
  return hits <= 1 && retryAfterMs !== NEVER_MS ? retryAfterMs : 0;
}

function refused({ limit, hits }: Hit, { untilMs, resetAtMs }: Refusal, nowMs: number): Decision {
  const capacity = capacityOf(limit);
  return {
    code: 'OVER_LIMIT',
    hitsBefore: capacity,
    limitRemaining: 0,
    durationUntilResetMs: Math.max(resetAtMs - nowMs, 0),
    retryAfterMs: hits > capacity ? NEVER_MS : untilMs - nowMs,
    delayMs: 0,
    soft: false,
    fromCache: true,
  };
}
