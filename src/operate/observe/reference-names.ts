import type { DenyCacheState } from '../../engine/ledger/refusals.ts';
import type { RuleCounts } from './rule-counts.ts';
import { asStatisticName } from './statistic-name.ts';
import type { FailedBy, Statistics } from './stats.ts';

/**
 * The statistics of each rule: names as in envoyproxy/ratelimit (except the last, which is Weir's), and their values.
 */
export const ruleStatistics: readonly (readonly [name: string, of: (counts: RuleCounts) => number])[] = [
  ['total_hits', ({ totalHits }) => totalHits],
  ['within_limit', ({ withinLimit }) => withinLimit],
  ['near_limit', ({ nearLimit }) => nearLimit],
  ['over_limit', ({ overLimit }) => overLimit],
  ['over_limit_with_local_cache', ({ overLimitWithLocalCache }) => overLimitWithLocalCache],
  ['shadow_mode', ({ shadowMode }) => shadowMode],
  ['soft_limit', ({ softLimit }) => softLimit],
];

/** envoyproxy/ratelimit's names of the two kinds of failures. */
export const failureNames: readonly (readonly [by: FailedBy, name: string])[] = [
  ['store', 'redis_error'],
  ['service', 'service_error'],
];

/**
 * Every counter by its full name in envoyproxy/ratelimit, such as
 * `ratelimit.service.rate_limit.shop.user_alice.total_hits`. Includes counters that are 0, of rules that were hit and
 * of the service. Rules with the same name are counted together.
 */
export function referenceCounters(statistics: Statistics): ReadonlyMap<string, number> {
  const counters = new Map<string, number>();
  for (const [name, count] of countsOf(statistics)) counters.set(name, (counters.get(name) ?? 0) + count);
  return counters;
}

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
 * The gauges of the local cache of refusals, by their names in envoyproxy/ratelimit.
 *
 * @param cache  undefined: no cache, and no gauges
 */
export function referenceGauges(cache: DenyCacheState | undefined): ReadonlyMap<string, number> {
  if (!cache) return new Map();
  const { counts } = cache;
  const gauges = {
    averageAccessTime: 0, // access times are not recorded
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

/** The name of a gRPC method's timer, which is in whole milliseconds. */
export const responseTimeName = (method: string): string => `ratelimit_server.${method}.response_time`;
