import { counted, count as grouped } from '../../base/texts.ts';
import { asObject, asObjects, check, type Finding, right } from './dump.ts';

/** The page of Envoy's admin interface with its counts of decisions, and of calls that took too long. */
export const STATS_PAGE = `/stats?format=json&filter=${encodeURIComponent(
  String.raw`ratelimit\.(.*\.)?(ok|error|over_limit|failure_mode_allowed)$|upstream_rq_timeout$`,
)}`;

const COUNT = /^(?:cluster\.(.+)\.)?ratelimit\.(?:.+\.)?(ok|error|over_limit|failure_mode_allowed)$/;

/**
 * What became of the requests for which Envoy has called Weir since its start. Calls when a stream ends are in none of
 * its counts.
 *
 * @param stats     `STATS_PAGE`
 * @param services  the clusters of rate limit services
 */
export function examineStats(stats: unknown, services: readonly string[]): readonly Finding[] {
  const sums = { ok: 0, error: 0, over_limit: 0, failure_mode_allowed: 0 };
  const passed = new Map<string, number>();
  let late = 0;
  for (const { name, value } of asObjects(asObject(stats).stats)) {
    const count = Number(value ?? 0);
    const [, cluster, kind] = COUNT.exec(String(name)) ?? [];
    if (kind !== undefined) sums[kind as keyof typeof sums] += count; // one of these, by the expression
    if (kind === 'failure_mode_allowed' && count > 0) passed.set(cluster ?? 'connections', count);
    if (services.some((service) => name === `cluster.${service}.upstream_rq_timeout`)) late += count;
  }
  const all = sums.ok + sums.over_limit + sums.error;
  if (all === 0) return [];
  const decided = `Envoy counts ${counted(sums.ok, 'request')} that Weir let pass and ${grouped(sums.over_limit)} that it refused`;
  if (sums.error === 0) return [right(`${decided}, and none without a decision`)];
  const places = [...passed].map(([cluster, count]) => `${grouped(count)} to ${cluster}`).join(', ');
  const failed = Math.max(sums.error - sums.failure_mode_allowed, 0);
  const causes = late < sums.error ? ': weir status has the other causes' : '';
  return [
    check(
      `${decided}; ${grouped(sums.error)} of ${grouped(all)} got no decision since its start: ${grouped(sums.failure_mode_allowed)} passed${places && ` (${places})`}, ${grouped(failed)} failed; ${counted(late, 'call')} took longer than the filter's timeout${causes}`,
    ),
  ];
}
