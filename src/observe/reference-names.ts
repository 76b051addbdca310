import type { DenyCacheState } from '../ledger/refusals.ts';
import { inSlices } from '../slices.ts';
import type { RuleCounts } from './rule-counts.ts';
import { asStatisticName } from './statistic-name.ts';
import type { FailedBy, Statistics } from './stats.ts';

/** What is counted of each rule: its name at envoyproxy/ratelimit (all but the last, which is ours), and where it stands. */
export const ruleStatistics: readonly (readonly [name: string, of: (counts: RuleCounts) => number])[] = [
  ['total_hits', ({ totalHits }) => totalHits],
  ['within_limit', ({ withinLimit }) => withinLimit],
  ['near_limit', ({ nearLimit }) => nearLimit],
  ['over_limit', ({ overLimit }) => overLimit],
  ['over_limit_with_local_cache', ({ overLimitWithLocalCache }) => overLimitWithLocalCache],
  ['shadow_mode', ({ shadowMode }) => shadowMode],
  ['soft_limit', ({ softLimit }) => softLimit],
];

/** What envoyproxy/ratelimit calls the two kinds of failures. */
export const failureNames: readonly (readonly [by: FailedBy, name: string])[] = [
  ['store', 'redis_error'],
  ['service', 'service_error'],
];

/**
 * Every counter under its name at envoyproxy/ratelimit, whole names such as
 * `ratelimit.service.rate_limit.shop.user_alice.total_hits`; those of rules that were hit, and of the service, that are 0 too.
 * Rules of one name are counted together. Gathered in slices.
 */
export async function referenceCounters(statistics: Statistics): Promise<ReadonlyMap<string, number>> {
  const counters = new Map<string, number>();
  for await (const slice of inSlices(countsOf(statistics)))
    for (const [name, count] of slice) counters.set(name, (counters.get(name) ?? 0) + count);
  return counters;
}

/** Which names there are is settled at the first count. */
function* countsOf(statistics: Statistics): Iterable<readonly [name: string, count: number]> {
  const domains = [...statistics.unknownDomains];
  for (const counts of statistics.rules())
    for (const [name, of] of ruleStatistics) yield [`ratelimit.service.rate_limit.${counts.key}.${name}`, of(counts)];
  for (const [domain, count] of domains)
    yield [`ratelimit.service.rate_limit.${asStatisticName(domain)}.domain_not_found`, count];
  for (const [by, name] of failureNames)
    yield [`ratelimit.service.call.should_rate_limit.${name}`, statistics.failures[by]];
  yield ['ratelimit.service.config_load_success', statistics.loads.success];
  yield ['ratelimit.service.config_load_error', statistics.loads.error];
  yield ['ratelimit.service.global_shadow_mode', statistics.sums.shadowed];
  for (const [method, count] of statistics.calls) yield [`ratelimit_server.${method}.total_requests`, count];
}

/**
 * Every gauge under its name at envoyproxy/ratelimit: what the local cache of refusals holds and has done.
 *
 * @param cache  undefined: there is none, and no gauge
 */
export function referenceGauges(cache: DenyCacheState | undefined): ReadonlyMap<string, number> {
  if (!cache) return new Map();
  const { counts } = cache;
  const gauges = {
    averageAccessTime: 0, // it does not keep when an entry was used last
    entryCount: cache.size(),
    evacuateCount: counts.evicted,
    expiredCount: counts.expired,
    hitCount: counts.hits,
    lookupCount: counts.lookups,
    missCount: counts.lookups - counts.hits,
    overwriteCount: counts.overwritten,
  };
  return new Map(Object.entries(gauges).map(([name, value]) => [`ratelimit.localcache.${name}`, value]));
}

/** The timer of a method of gRPC, in whole milliseconds. */
export const responseTimeName = (method: string): string => `ratelimit_server.${method}.response_time`;
