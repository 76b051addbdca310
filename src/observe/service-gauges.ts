import { version as nodeVersion } from 'node:process';
import type { CommitCounts } from '../ledger/pending-commits.ts';
import type { QuotaCounts } from '../rlqs/quota-counts.ts';
import type { RuleLimit, RuleTree } from '../rules/tree.ts';
import type { PeerReport, SitesReport } from '../sites/site-counts.ts';
import { beginMetric, betweenMetrics, type ExpositionFormat, writeLabels, writeSeries } from './exposition.ts';

/** How busy the processes are that answer, all together. */
export interface Load {
  /** Calls that are being handled, or wait for that; those that are held included. */
  readonly inFlight: number;
  /** Calls that are held until their turn: `max_delay`. */
  readonly held: number;
  /** Connections of callers, gRPC and HTTP. */
  readonly connections: number;
  /** Streams of health Watch. */
  readonly watches: number;
  /** Of all calls the share that is refused since there is too much to do, 0 to 1: of the process that refuses most. */
  readonly shedShare: number;
  /** Memory that is held for callers, and the most that may be. */
  readonly callerBytes: number;
  readonly callerMaxBytes: number;
  /** Absent: the rate limit quota service is off. */
  readonly quotas?: Readonly<QuotaCounts>;
  /** Absent: counters are in this process. */
  readonly commits?: CommitCounts;
  /** The other sites that share limits; absent: this is the only site. */
  readonly sites?: SitesReport;
}

/** How it stands with the engine that keeps the counters. Times in milliseconds. */
export interface StoreFacts {
  readonly isUp: boolean;
  readonly latencyMs: number | undefined;
  readonly lastSuccessAtMs: number | undefined;
}

/** Counters in the memory of this process. */
export interface MemoryFacts {
  readonly counters: number;
  readonly bytes: number;
  /** Counters that were forgotten before they expired, to make room. */
  readonly evicted: number;
}

/** What a dashboard shows besides counts. */
export interface ServiceGauges {
  rules(): RuleTree | undefined;
  /** The last rules that were right; undefined: there were none. */
  lastLoad(): { readonly atMs: number; readonly hash: string; readonly isNewest: boolean } | undefined;
  load(): Load;
  /** Undefined: counters are in this process. */
  store(): StoreFacts | undefined;
  /** Undefined: counters are elsewhere. */
  memory(): MemoryFacts | undefined;
  /** Workers that took the place of one that ended. */
  restarts(): number;
  readonly version: string;
}

/** Limits that are listed: a page must not grow beyond what scrapers take. */
const MAX_LIMITS = 10_000;

/** A line at a time; an empty text is a step of the work without a line. */
export function* writeServiceGauges(sources: ServiceGauges, format: ExpositionFormat): Iterable<string> {
  yield* writeLimits(sources.rules(), format);
  const { gauge, counter } = metricsIn(format);
  const { inFlight, held, connections, watches, shedShare, quotas, commits, sites } = sources.load();
  yield gauge(
    'weir_calls_in_flight',
    'Calls that are handled or wait for that, those that are held included.',
    inFlight,
  );
  yield gauge('weir_calls_held', 'Calls that are held until their turn: max_delay.', held);
  yield gauge('weir_connections', 'Connections of callers, gRPC and HTTP.', connections);
  yield gauge('weir_health_watches', 'Open streams of the gRPC health service (Watch).', watches);
  yield gauge(
    'weir_shed_share',
    'Share of calls that the busiest process refuses since there is too much to do, 0 to 1.',
    shedShare,
  );
  if (quotas) yield* writeQuotaCounts(quotas, format);
  if (commits) yield* writeCommitCounts(commits, format);
  if (sites) yield* writeSites(sites, format);
  yield* writeStore(sources.store(), format);
  const memory = sources.memory();
  if (memory) {
    yield gauge('weir_memory_counters', 'Counters that are held in memory.', memory.counters);
    yield gauge('weir_memory_counter_bytes', 'What they cost.', memory.bytes);
    yield counter(
      'weir_memory_counters_evicted_total',
      'Counters that were forgotten before they expired, to make room.',
      memory.evicted,
    );
  }
  const last = sources.lastLoad();
  if (last) {
    yield gauge('weir_rules_loaded_timestamp_seconds', 'When the rules in force were loaded.', last.atMs / 1_000);
    yield gauge(
      'weir_rules_newest',
      '1 while the rules in force are the newest, 0 while newer ones are wrong.',
      last.isNewest ? 1 : 0,
    );
    yield gauge('weir_rules_info', 'The hash of the rules in force.', 1, { hash: last.hash });
  }
  yield counter('weir_worker_restarts_total', 'Workers that took the place of one that ended.', sources.restarts());
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
      'How long the last answer to the check of the store took.',
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
  yield gauge('weir_rlqs_buckets', 'Buckets that they report.', quotas.buckets);
  yield counter('weir_rlqs_reports_total', 'Reports, each of all buckets of a proxy.', quotas.reports);
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
  yield gauge('weir_pending_commits', 'Commits that the store could not take, kept to be sent again.', pending);
  yield counter('weir_pending_commits_sent_total', 'Those that the store has taken since.', sent);
  yield counter(
    'weir_pending_commits_dropped_total',
    'Those that are lost: their ttl was over, or there was no room for them.',
    dropped,
  );
}

function* writeSites({ peers, errorRatio, errorBound }: SitesReport, format: ExpositionFormat): Iterable<string> {
  const { gauge } = metricsIn(format);
  yield gauge(
    'weir_site_error_ratio',
    'By how much the limit of sites that is furthest beyond its bound was exceeded in the last minute, as a part of it.',
    errorRatio,
  );
  yield gauge('weir_site_error_bound', 'What the rule of that limit declares as max_error.', errorBound);
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
    'Exchanges in a row that another site did not answer: 0 while they work, or none are needed.',
    ({ failing }) => failing,
  );
  yield* metric(
    'counter',
    'weir_site_borrowed_hits_total',
    'Hits of shared limits that were taken from another site.',
    ({ borrowed }) => borrowed,
  );
  yield* metric(
    'counter',
    'weir_site_untimely_total',
    'Loans that were not taken: too late, or the clocks of the sites are too far apart.',
    ({ untimely }) => untimely,
  );
  yield* metric(
    'gauge',
    'weir_site_round_trip_seconds',
    'How long the last exchange with another site took.',
    ({ roundTripMs }) => roundTripMs / 1_000,
  );
}

function* writeLimits(rules: RuleTree | undefined, format: ExpositionFormat): Iterable<string> {
  const name = 'weir_rule_limit';
  yield beginMetric(name, 'gauge', 'Hits that pass in a window, by rule; window in seconds.', format);
  const seen = new Set<string>();
  for (const { domain, levels, limits } of rules?.rules ?? []) {
    for (const one of limits) {
      const labels = writeLabels(labelsOf(domain, levels, one));
      if (seen.has(labels)) continue; // two limits that differ in nothing that is shown
      if (seen.size >= MAX_LIMITS) break;
      seen.add(labels);
      yield writeSeries(name, labels, one.limit.requestsPerUnit);
    }
    yield '';
  }
  yield betweenMetrics(format);
}

const labelsOf = (domain: string, levels: readonly string[], { limit, label, policy, times }: RuleLimit) =>
  Object.entries({
    ...{ domain, rule: levels.join('.'), algorithm: limit.algorithm },
    ...{ name: label.name, window: String(limit.windowMs / 1_000), shadow: String(policy.shadow ?? false) },
    ...(times && { active: times.active.text }),
  });
