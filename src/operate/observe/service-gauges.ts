import { version as nodeVersion } from 'node:process';
import type { QuotaCounts } from '../../edge/rlqs/quota-counts.ts';
import type { PeerReport } from '../../edge/sites/shapes.ts';
import type { SitesReport } from '../../edge/sites/site-counts.ts';
import type { CommitCounts } from '../../engine/ledger/pending-commits.ts';
import type { RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { beginMetric, betweenMetrics, type ExpositionFormat, writeLabels, writeSeries } from './exposition.ts';

/** The total load of the processes that answer. */
export interface Load {
  /** Calls that are being handled or are waiting, including held calls. */
  readonly inFlight: number;
  /** Calls that are held until their turn: `max_delay`. */
  readonly held: number;
  /** Connections of callers, gRPC and HTTP. */
  readonly connections: number;
  /** Open streams of the health service's Watch. */
  readonly watches: number;
  /** By how much a timer was late at most in the last seconds, in the process that is most late. */
  readonly latenessMs: number;
  /** Memory held for callers, and its limit. */
  readonly callerBytes: number;
  readonly callerMaxBytes: number;
  /** Absent: the rate limit quota service is off. */
  readonly quotas?: Readonly<QuotaCounts>;
  /** Absent: counters are in this process. */
  readonly commits?: CommitCounts;
  /** The other sites that share limits; absent: this is the only site. */
  readonly sites?: SitesReport;
}

/** The state of the store. Times in milliseconds. */
export interface StoreFacts {
  readonly isUp: boolean;
  /** Why it is down; undefined: it is up. */
  readonly reason: string | undefined;
  readonly latencyMs: number | undefined;
  readonly lastSuccessAtMs: number | undefined;
}

/** Counters in the memory of this process. */
export interface MemoryFacts {
  readonly counters: number;
  readonly bytes: number;
  /** Counters evicted before they expired, to make room. */
  readonly evicted: number;
}

/** The sources of the service's gauges. */
export interface ServiceGauges {
  rules(): RuleTree | undefined;
  /** The last valid rules; undefined: there were none. */
  lastLoad(): { readonly atMs: number; readonly hash: string; readonly isNewest: boolean } | undefined;
  load(): Load;
  /** Undefined: counters are in this process. */
  store(): StoreFacts | undefined;
  /** Undefined: counters are elsewhere. */
  memory(): MemoryFacts | undefined;
  /** Workers that replaced one that exited. */
  restarts(): number;
  readonly version: string;
}

/** The most limits listed: scrapers limit the size of a page. */
const MAX_LIMITS = 10_000;

/** Writes one line at a time. */
export function* writeServiceGauges(sources: ServiceGauges, format: ExpositionFormat): Iterable<string> {
  yield* writeLimits(sources.rules(), format);
  const { gauge, counter } = metricsIn(format);
  const { inFlight, held, connections, watches, latenessMs, quotas, commits, sites } = sources.load();
  yield gauge('weir_calls_in_flight', 'Calls that are being handled or wait to be, including held calls.', inFlight);
  yield gauge('weir_calls_held', 'Calls that are held until they may pass (max_delay).', held);
  yield gauge('weir_connections', 'Connections of callers, gRPC and HTTP.', connections);
  yield gauge('weir_health_watches', 'Open streams of the gRPC health service (Watch).', watches);
  yield gauge(
    'weir_process_late_seconds',
    'The most that the event loop of a process was late in the last 15 seconds.',
    latenessMs / 1_000,
  );
  if (quotas) yield* writeQuotaCounts(quotas, format);
  if (commits) yield* writeCommitCounts(commits, format);
  if (sites) yield* writeSites(sites, format);
  yield* writeStore(sources.store(), format);
  const memory = sources.memory();
  if (memory) {
    yield gauge('weir_memory_counters', 'Counters that are held in memory.', memory.counters);
    yield gauge('weir_memory_counter_bytes', 'Memory that these counters use.', memory.bytes);
    yield counter(
      'weir_memory_counters_evicted_total',
      'Counters evicted before they expired, to make room.',
      memory.evicted,
    );
  }
  const last = sources.lastLoad();
  if (last) {
    yield gauge('weir_rules_loaded_timestamp_seconds', 'When the rules in force were loaded.', last.atMs / 1_000);
    yield gauge(
      'weir_rules_newest',
      '1 while the rules in force are the newest, 0 while newer rules are invalid.',
      last.isNewest ? 1 : 0,
    );
    yield gauge('weir_rules_info', 'The hash of the rules in force.', 1, { hash: last.hash });
  }
  yield counter('weir_worker_restarts_total', 'Workers started to replace one that ended.', sources.restarts());
  const info = { version: sources.version, node: nodeVersion };
  yield gauge('weir_build_info', 'The version of the service, and of Node.', 1, info);
}

function* writeStore(store: StoreFacts | undefined, format: ExpositionFormat): Iterable<string> {
  const { gauge } = metricsIn(format);
  yield gauge(
    'weir_store_up',
    '1 while the counters can be reached, checked once a second, else 0.',
    store?.isUp === false ? 0 : 1,
  );
  if (store?.latencyMs !== undefined)
    yield gauge(
      'weir_store_latency_seconds',
      'Duration of the last store check that was answered.',
      store.latencyMs / 1_000,
    );
  if (store?.lastSuccessAtMs !== undefined)
    yield gauge(
      'weir_store_last_success_timestamp_seconds',
      'When the store last answered.',
      store.lastSuccessAtMs / 1_000,
    );
}

/** Metrics with one series each. */
const metricsIn = (format: ExpositionFormat) => ({
  gauge: (name: string, help: string, value: number, labels: Readonly<Record<string, string>> = {}): string =>
    `${beginMetric(name, 'gauge', help, format)}${writeSeries(name, writeLabels(Object.entries(labels)), value)}${betweenMetrics(format)}`,
  counter: (name: string, help: string, value: number): string =>
    `${beginMetric(name, 'counter', help, format)}${writeSeries(name, '', value)}${betweenMetrics(format)}`,
});

function* writeQuotaCounts(quotas: QuotaCounts, format: ExpositionFormat): Iterable<string> {
  const { gauge, counter } = metricsIn(format);
  yield gauge('weir_rlqs_streams', 'Proxies that are connected to the rate limit quota service.', quotas.streams);
  yield gauge('weir_rlqs_buckets', 'Buckets that proxies report.', quotas.buckets);
  yield counter('weir_rlqs_reports_total', 'Reports, each with all buckets of a proxy.', quotas.reports);
  yield counter('weir_rlqs_assignments_total', 'Assignments that were sent, each for one bucket.', quotas.assignments);
  yield counter('weir_rlqs_abandoned_total', 'Buckets that were abandoned after three idle reports.', quotas.abandoned);
  yield counter(
    'weir_rlqs_unknown_total',
    'Buckets that no rule can be applied to, or that exceed a limit: handled as RLQS_UNKNOWN says.',
    quotas.unknown,
  );
  yield counter(
    'weir_rlqs_unavailable_total',
    'Reports of buckets that the store could not take: the proxy keeps its share until it expires.',
    quotas.unavailable,
  );
}

function* writeCommitCounts({ pending, sent, dropped }: CommitCounts, format: ExpositionFormat): Iterable<string> {
  const { gauge, counter } = metricsIn(format);
  yield gauge('weir_pending_commits', 'Commits that the store could not take, kept for a retry.', pending);
  yield counter('weir_pending_commits_sent_total', 'Pending commits that the store took later.', sent);
  yield counter(
    'weir_pending_commits_dropped_total',
    'Pending commits that were dropped: their ttl had ended, or there was no room for them.',
    dropped,
  );
}

function* writeSites({ peers, errorRatio, errorBound }: SitesReport, format: ExpositionFormat): Iterable<string> {
  const { gauge } = metricsIn(format);
  yield gauge(
    'weir_site_error_ratio',
    'Excess over the shared limit that is furthest beyond its bound, in the last minute, as a part of the limit.',
    errorRatio,
  );
  yield gauge('weir_site_error_bound', 'The max_error of the limit in weir_site_error_ratio.', errorBound);
  const metric = (kind: 'gauge' | 'counter', name: string, help: string, numberOf: (peer: PeerReport) => number) => [
    beginMetric(name, kind, help, format),
    ...peers.map((peer) => writeSeries(name, writeLabels([['peer', peer.site]]), numberOf(peer))),
    betweenMetrics(format),
  ];
  yield* metric('counter', 'weir_site_exchanges_total', 'Exchanges with another site.', ({ exchanges }) => exchanges);
  yield* metric(
    'counter',
    'weir_site_failures_total',
    'Exchanges that another site did not answer.',
    ({ failures }) => failures,
  );
  yield* metric(
    'gauge',
    'weir_site_failing',
    'Consecutive exchanges that another site did not answer; 0 while exchanges succeed or none are needed.',
    ({ failing }) => failing,
  );
  yield* metric(
    'counter',
    'weir_site_borrowed_hits_total',
    'Hits of shared limits that were borrowed from another site.',
    ({ borrowed }) => borrowed,
  );
  yield* metric(
    'counter',
    'weir_site_untimely_total',
    'Loans that were not accepted: they came too late, or the clocks of the sites are too far apart.',
    ({ untimely }) => untimely,
  );
  yield* metric(
    'gauge',
    'weir_site_round_trip_seconds',
    'Duration of the last exchange with another site.',
    ({ roundTripMs }) => roundTripMs / 1_000,
  );
}

function* writeLimits(rules: RuleTree | undefined, format: ExpositionFormat): Iterable<string> {
  const name = 'weir_rule_limit';
  yield beginMetric(name, 'gauge', 'Hits that pass in a window, by rule; window in seconds.', format);
  const seen = new Set<string>();
  for (const { domain, levels, limits } of rules?.rules ?? []) {
    if (seen.size >= MAX_LIMITS) break; // else further rules would be created, but not shown
    for (const one of limits) {
      const labels = writeLabels(labelsOf(domain, levels, one));
      if (seen.has(labels)) continue; // two limits that differ only in what is not shown
      if (seen.size >= MAX_LIMITS) break;
      seen.add(labels);
      yield writeSeries(name, labels, one.limit.requestsPerUnit);
    }
  }
  yield betweenMetrics(format);
}

const labelsOf = (domain: string, levels: readonly string[], { limit, label, policy, times }: RuleLimit) =>
  Object.entries({
    ...{ domain, rule: levels.join('.'), algorithm: limit.algorithm },
    ...{ name: label.name, window: String(limit.windowMs / 1_000), shadow: String(policy.shadow ?? false) },
    ...(times && { active: times.active.text }),
  });
