import { memoryUsage, version as nodeVersion, resourceUsage } from 'node:process';
import { storeFailurePolicies } from '../../engine/algorithms/limit.ts';
import type { Code } from '../../engine/decide/decide.ts';
import { namedAlgorithm } from '../../engine/holds/limits.ts';
import type { Refusals } from '../../engine/ledger/refusals.ts';
import type { CommitCounts } from '../../engine/ledger/reservations.ts';
import type { RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { OTHER } from './caller-names.ts';
import type { Histogram } from './histogram.ts';
import { counter, gauge, type MetricSample, type ReadRow, rowsFor } from './metric.ts';
import { type ProcessProbe, probeRows } from './process-metrics.ts';
import type { QuotaCounts } from './quota-counts.ts';
import type { SitesReport } from './site-counts.ts';
import type { WorkReport } from './work-state.ts';

const seconds = (ms: number): number => ms / 1_000;

const ofRule = (name: string) => ({
  statsd: `ratelimit.service.rate_limit.<key>.${name}`,
  prometheus: `ratelimit_service_rate_limit_${name}`,
});

const ANSWERED = 'Descriptors that a rule answered, by code.';

/**
 * The counts of each rule that was hit. Counters are summed over the processes of an instance; of gauges the largest
 * value of the last minute is kept.
 */
export const ruleRows = {
  totalHits: counter('weir_hits_total', 'Hits that a rule counted.', { reference: ofRule('total_hits') }),
  withinLimit: counter('weir_hits_within_limit_total', 'Hits that passed.', { reference: ofRule('within_limit') }),
  nearLimit: counter('weir_hits_near_limit_total', 'Hits above NEAR_LIMIT_RATIO of the limit.', {
    reference: ofRule('near_limit'),
  }),
  overLimit: counter(undefined, 'Hits beyond the limit.', { reference: ofRule('over_limit') }),
  overLimitRefused: counter(
    'weir_hits_over_limit_total',
    'Hits beyond the limit, without those that the shadow_mode of a rule let pass.',
  ),
  overLimitWithLocalCache: counter(
    'weir_hits_over_limit_from_cache_total',
    'Hits beyond the limit that were refused from the local cache.',
    { reference: ofRule('over_limit_with_local_cache') },
  ),
  shadowMode: counter('weir_hits_shadowed_total', 'Hits beyond the limit that the shadow_mode of a rule let pass.', {
    reference: ofRule('shadow_mode'),
  }),
  softLimit: counter('weir_hits_soft_limit_total', 'Hits of requests that passed on the soft part of a limit.', {
    reference: ofRule('soft_limit'),
  }),
  notified: counter(
    'weir_limit_shares_passed_total',
    'Events of notify: shares of limits that counters have passed, without those that were dropped.',
    { reference: ofRule('notified') },
  ),
  answeredOk: counter('weir_rule_answers_total', ANSWERED, { only: ['code', 'OK'] }),
  answeredOver: counter('weir_rule_answers_total', ANSWERED, { only: ['code', 'OVER_LIMIT'] }),
  storeOperations: counter(
    'weir_rule_store_operations_total',
    'Operations on counters in the store, estimated from one call in 16.',
  ),
  storeMs: counter(
    'weir_rule_store_seconds_total',
    'Time that calls to the store took, less that for which this process did not run, in equal parts for their operations, estimated from one call in 16.',
    { shown: seconds },
  ),
  storeBytes: counter(
    'weir_rule_store_bytes_total',
    'Size of the keys and states of these operations, estimated from one call in 16.',
  ),
  share: gauge(
    'weir_rule_highest_share',
    'The largest part of its limit that any counter of a rule had used in the last minute (60 to 75 seconds); above 1 if hits beyond the limit are counted.',
  ),
};

/** For rules with limits on requests in flight. */
export const holdRows = {
  held: gauge(
    'weir_slots_held',
    'The most slots that any counter of a rule held in the last minute (60 to 75 seconds).',
  ),
  oldestMs: gauge(
    'weir_slots_oldest_seconds',
    'The longest that any slot of a rule had been held in the last minute (60 to 75 seconds).',
    { shown: seconds },
  ),
  expired: counter(
    'weir_slots_expired_total',
    'Slots not released before their ttl ended: their requests outlived it, or their releases were lost.',
  ),
};

const OF_LAST = 'of the counter that was used last (of one process, with WORKERS)';

/** For rules with adaptive limits: the values after the last request or release. */
export const adaptRows = {
  limit: gauge('weir_adaptive_limit_slots', `The adaptive limit ${OF_LAST}.`, { add: 'last' }),
  held: gauge('weir_adaptive_held_slots', `Slots in use ${OF_LAST}.`, { add: 'last' }),
  holdMs: gauge(
    'weir_adaptive_hold_time_seconds',
    `Mean hold time in the last window ${OF_LAST}; 0 until it is measured.`,
    { add: 'last', shown: seconds },
  ),
  baselineMs: gauge(
    'weir_adaptive_baseline_seconds',
    `Mean hold time without a queue ${OF_LAST}; 0 until it is measured.`,
    { add: 'last', shown: seconds },
  ),
};

/** For rules with reservations. */
export const reservationRows = {
  held: gauge(
    'weir_reservations_held_hits',
    'The most hits on hold that any counter of a rule had in the last minute (60 to 75 seconds).',
  ),
  reserved: counter('weir_reservations_reserved_hits_total', 'Hits that were reserved.'),
  committed: counter('weir_reservations_committed_hits_total', 'Hits that commits charged.'),
  overrun: counter(
    'weir_reservations_overrun_hits_total',
    'Hits that were used beyond those reserved; with on_overrun: clip they are not charged.',
  ),
  lapsed: counter(
    'weir_reservations_lapsed_hits_total',
    'Hits whose reservations were not committed within their ttl; with on_lapse: free they are not charged.',
  ),
  late: counter(
    'weir_reservations_late_total',
    'Commits whose reservation had expired: their requests outlived the ttl.',
  ),
  unknown: counter(
    'weir_reservations_unknown_total',
    'Commits of requests that had reserved nothing, or whose reservation was lost; they are still charged.',
  ),
  repeated: counter('weir_reservations_repeated_total', 'Repeated commits, which were ignored.'),
};

/** Error codes with which connections and streams are ended. */
const connectionErrorCodes: readonly string[] = [
  ...['PROTOCOL_ERROR', 'INTERNAL_ERROR', 'FLOW_CONTROL_ERROR', 'STREAM_CLOSED', 'FRAME_SIZE_ERROR'],
  ...['REFUSED_STREAM', 'COMPRESSION_ERROR', 'ENHANCE_YOUR_CALM', 'TOO_MANY_CONNECTIONS', 'IDLE_CONNECTION'],
];

/** Upper bounds of the buckets of store calls, in milliseconds; the last bucket has none. */
export const storeCallBounds = [0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 100, 250, 1_000] as const;

/** The bucket of a store call. */
export const storeCallBucket = (ms: number): string => String(storeCallBounds.find((bound) => ms <= bound) ?? 'longer');

/** Counts of the service by one label. */
export const tallyRows = {
  answers: counter('weir_answers_total', 'Requests answered, by overall code.', {
    labels: ['code'],
    known: ['OK', 'OVER_LIMIT'],
  }),
  degradedAnswers: counter(
    'weir_answers_degraded_total',
    'Requests answered while one of their counters could not be reached in time, by overall code.',
    { labels: ['code'], known: ['OK', 'OVER_LIMIT'] },
  ),
  failures: counter(
    'weir_failures_total',
    'Requests without an answer: the counters could not be reached (store), or anything else (service).',
    {
      labels: ['by'],
      known: ['store', 'service'],
      reference: {
        statsd: 'ratelimit.service.call.should_rate_limit.<by>',
        prometheus: 'ratelimit_service_should_rate_limit_error',
        label: 'err_type',
        values: { store: 'redis_error', service: 'service_error' },
      },
    },
  ),
  undecided: counter(
    'weir_undecided_total',
    'Requests without a decision in time, which their proxy may have let pass, by reason. lost: in flight when their process ended, as of its last report.',
    { labels: ['reason'], known: ['store', 'overload', 'late', 'cancelled', 'in_flight', 'lost', 'other'] },
  ),
  unknownDomains: counter('weir_domain_not_found_total', 'Descriptors of domains that have no rules.', {
    labels: ['domain'],
    reference: { statsd: 'ratelimit.service.rate_limit.<domain>.domain_not_found' },
  }),
  withoutRequired: counter(
    'weir_requests_without_required_keys_total',
    'Requests answered that lacked keys that the rules require (require), by domain.',
    { labels: ['domain'] },
  ),
  degraded: counter(
    'weir_hits_degraded_total',
    'Hits decided while their counters could not be reached in time, by policy: on_store_failure, or local for on_overload.',
    { labels: ['policy'], known: storeFailurePolicies },
  ),
  connectionErrors: counter(
    'weir_http2_errors_total',
    'gRPC connections and streams closed because the client broke the protocol or a limit, or to make room for a new connection, by HTTP/2 error code.',
    {
      labels: ['code'],
      known: connectionErrorCodes,
    },
  ),
  calls: counter(undefined, 'gRPC calls.', {
    labels: ['method'],
    reference: {
      statsd: 'ratelimit_server.<method>.total_requests',
      prometheus: 'ratelimit_service_total_requests',
      label: 'grpc_method',
    },
  }),
  storeCalls: counter(undefined, 'Calls to the store, by duration.', {
    labels: ['bucket'],
    known: [...storeCallBounds.map(String), 'longer'],
  }),
  loads: counter('weir_rule_loads_total', 'Rule loads, by outcome.', {
    labels: ['outcome'],
    known: ['success', 'error'],
    reference: { statsd: 'ratelimit.service.config_load_<outcome>' },
  }),
};

/** Durations of gRPC calls as envoyproxy/ratelimit reports them. */
export const responseTime = {
  kind: 'histogram',
  name: undefined,
  help: 'Duration of gRPC calls.',
  labels: ['grpc_method'],
  reference: {
    statsd: 'ratelimit_server.<method>.response_time',
    prometheus: 'ratelimit_service_response_time_seconds',
  },
} as const;

/** The counts of a tally by the values of its label. */
export const tallySamples = (
  tally: Readonly<Record<string, number>> | ReadonlyMap<string, number>,
): Iterable<readonly [value: string, count: number]> => (isMap(tally) ? tally : Object.entries(tally));

const isMap = (tally: object): tally is ReadonlyMap<string, number> => Symbol.iterator in tally;

/** Counts of the service without labels. */
export const sumRows = {
  fromLease: counter('weir_hits_from_lease_total', 'Hits answered from a lease of the process (consistency: leased).'),
  decisionsNotLogged: counter(
    'weir_decisions_not_logged_total',
    'Decisions that DECISION_LOG did not write, beyond DECISION_LOG_MAX_PER_SECOND.',
  ),
  unmatched: counter('weir_requests_unmatched_total', 'Requests answered of which no descriptor matched a rule.'),
  storeMs: counter(undefined, 'Duration of all calls to the store.'),
  recorded: counter('weir_requests_recorded_total', 'Requests that were recorded for weir replay: RECORD_TO.'),
  notRecorded: counter(
    'weir_requests_not_recorded_total',
    'Requests that were not recorded: beyond RECORD_MAX_PER_SECOND, or the disk was slow or full.',
  ),
  shadowed: counter('weir_global_shadow_mode_total', 'Requests over a limit that SHADOW_MODE let pass.', {
    reference: { statsd: 'ratelimit.service.global_shadow_mode' },
  }),
};

/** Counts by the values of a label. Callers may send any domain, whose counts are in a map. */
export type Tallies = {
  readonly [T in Exclude<keyof typeof tallyRows, 'unknownDomains'>]: Record<ValueOf<(typeof tallyRows)[T]>, number>;
};
type ValueOf<T> = T extends { readonly known: readonly (infer V extends string)[] } ? V : string;

export type Sums = Record<keyof typeof sumRows, number>;

/** What a process has counted besides its rules. */
export interface Counts extends Readonly<Tallies> {
  /** Answers by domain, for domains with rules. */
  readonly domainAnswers: ReadonlyMap<string, Readonly<Record<Code, number>>>;
  /** Descriptors of unknown domains, by domain. */
  readonly unknownDomains: ReadonlyMap<string, number>;
  readonly sums: Readonly<Sums>;
}

/** The parts of a decider that its figures are read from. Parts that are off are undefined. */
export interface DeciderParts {
  readonly overload: {
    inFlight(): number;
    latenessMs(): number;
    readonly memory: { readonly connections: number; readonly bytes: number; readonly maxBytes: number };
  };
  readonly delayed: { readonly count: number };
  readonly health: { readonly openWatches: number };
  readonly ledger: {
    readonly leases: { readonly leased: number } | undefined;
    readonly pendingCommits: { counts(): CommitCounts } | undefined;
    readonly refusals: Pick<Refusals, 'counts' | 'size'> | undefined;
  };
  readonly memory: { held(): MemoryFacts } | undefined;
  readonly quotas: { readonly counts: QuotaCounts } | undefined;
}

/** Counters in the memory of a process. */
interface MemoryFacts {
  readonly counters: number;
  readonly bytes: number;
  /** Counters evicted before they expired, to make room. */
  readonly evicted: number;
}

const ofProcess = rowsFor<unknown, number>();
const ofDecider = rowsFor<DeciderParts, number>();
const ofPart = rowsFor<DeciderParts, number | undefined>();

const MICROSECONDS = 1e6;

/** What a process uses of its machine. */
export const processFigures = {
  userSeconds: ofProcess.counter(
    'process_cpu_user_seconds_total',
    'User CPU time in seconds, of all processes.',
    () => resourceUsage().userCPUTime / MICROSECONDS,
  ),
  systemSeconds: ofProcess.counter(
    'process_cpu_system_seconds_total',
    'System CPU time in seconds, of all processes.',
    () => resourceUsage().systemCPUTime / MICROSECONDS,
  ),
  rssBytes: ofProcess.gauge('process_resident_memory_bytes', 'Resident memory in bytes, of all processes.', () =>
    memoryUsage.rss(),
  ),
  heapBytes: ofProcess.gauge(undefined, 'JavaScript heap in bytes.', () => memoryUsage().heapUsed),
};

/** What every decider reports. */
export const deciderFigures = {
  inFlight: ofDecider.gauge(
    'weir_calls_in_flight',
    'Calls that are being handled or wait to be, including delayed ones.',
    ({ overload }) => overload.inFlight(),
  ),
  held: ofDecider.gauge(
    'weir_calls_held',
    'Calls whose answers are delayed until they may pass (max_delay).',
    ({ delayed }) => delayed.count,
  ),
  connections: ofDecider.gauge(
    'weir_connections',
    'Connections of callers, gRPC and HTTP.',
    ({ overload }) => overload.memory.connections,
  ),
  watches: ofDecider.gauge(
    'weir_health_watches',
    'Open streams of the gRPC health service (Watch).',
    ({ health }) => health.openWatches,
  ),
  latenessMs: ofDecider.gauge(
    'weir_process_late_seconds',
    'The most that the event loop of a process was late in the last 15 seconds.',
    ({ overload }) => overload.latenessMs(),
    { add: 'max', shown: seconds },
  ),
  callerBytes: ofDecider.gauge(undefined, 'Memory held for callers.', ({ overload }) => overload.memory.bytes),
  callerMaxBytes: ofDecider.gauge(undefined, 'The limit of it.', ({ overload }) => overload.memory.maxBytes),
  leased: ofDecider.gauge(
    'weir_leased_hits',
    'Leased hits that are not used yet; limits may pass up to this many hits fewer.',
    ({ ledger }) => ledger.leases?.leased ?? 0,
  ),
};

const ofQuotas = (name: keyof QuotaCounts) => (parts: DeciderParts) => parts.quotas?.counts[name];
const ofCommits = (name: keyof CommitCounts) => (parts: DeciderParts) => parts.ledger.pendingCommits?.counts()[name];
const ofMemory = (name: keyof MemoryFacts) => (parts: DeciderParts) => parts.memory?.held()[name];
const inCache = (name: string) => ({ reference: { statsd: `ratelimit.localcache.${name}` } });
const ofCache = (count: keyof Refusals['counts'], name: string, help: string) =>
  ofPart.counter(undefined, help, ({ ledger }) => ledger.refusals?.counts[count], inCache(name));

/** What deciders report of parts that may be off. */
export const partFigures = {
  quotaStreams: ofPart.gauge(
    'weir_rlqs_streams',
    'Proxies that are connected to the rate limit quota service.',
    ofQuotas('streams'),
  ),
  quotaBuckets: ofPart.gauge('weir_rlqs_buckets', 'Buckets that proxies report.', ofQuotas('buckets')),
  quotaReports: ofPart.counter(
    'weir_rlqs_reports_total',
    'Reports, each with all buckets of a proxy.',
    ofQuotas('reports'),
  ),
  quotaAssignments: ofPart.counter(
    'weir_rlqs_assignments_total',
    'Assignments that were sent, each for one bucket.',
    ofQuotas('assignments'),
  ),
  quotaAbandoned: ofPart.counter(
    'weir_rlqs_abandoned_total',
    'Buckets that were abandoned after three idle reports.',
    ofQuotas('abandoned'),
  ),
  quotaUnknown: ofPart.counter(
    'weir_rlqs_unknown_total',
    'Buckets that no rule can be applied to, or that exceed a limit: handled as RLQS_UNKNOWN says.',
    ofQuotas('unknown'),
  ),
  quotaUnavailable: ofPart.counter(
    'weir_rlqs_unavailable_total',
    'Reports of buckets that the store could not take: the proxy keeps its quota until it expires.',
    ofQuotas('unavailable'),
  ),
  pendingCommits: ofPart.gauge(
    'weir_pending_commits',
    'Commits that the store could not take, kept for a retry.',
    ofCommits('pending'),
  ),
  commitsSent: ofPart.counter(
    'weir_pending_commits_sent_total',
    'Pending commits that the store took later.',
    ofCommits('sent'),
  ),
  commitsDropped: ofPart.counter(
    'weir_pending_commits_dropped_total',
    'Pending commits that were dropped: their ttl had ended, or there was no room for them.',
    ofCommits('dropped'),
  ),
  memoryCounters: ofPart.gauge('weir_memory_counters', 'Counters that are held in memory.', ofMemory('counters')),
  memoryBytes: ofPart.gauge('weir_memory_counter_bytes', 'Memory that these counters use.', ofMemory('bytes')),
  memoryEvicted: ofPart.counter(
    'weir_memory_counters_evicted_total',
    'Counters evicted before they expired, to make room.',
    ofMemory('evicted'),
  ),
  cacheAccessTime: ofPart.gauge(
    undefined,
    'Always 0, since access times are not recorded.',
    ({ ledger }) => ledger.refusals && 0,
    inCache('averageAccessTime'),
  ),
  cacheSize: ofPart.gauge(
    undefined,
    'Cached refusals.',
    ({ ledger }) => ledger.refusals?.size(),
    inCache('entryCount'),
  ),
  cacheEvicted: ofCache('evicted', 'evacuateCount', 'Refusals evicted for lack of memory.'),
  cacheExpired: ofCache('expired', 'expiredCount', 'Refusals that expired.'),
  cacheHits: ofCache('hits', 'hitCount', 'Lookups that found a refusal.'),
  cacheLookups: ofCache('lookups', 'lookupCount', 'Lookups.'),
  cacheMisses: ofPart.counter(
    undefined,
    'Lookups that found none.',
    ({ ledger: { refusals } }) => refusals && refusals.counts.lookups - refusals.counts.hits,
    inCache('missCount'),
  ),
  cacheOverwritten: ofCache('overwritten', 'overwriteCount', 'Refusals overwritten before they expired.'),
};

/** The figures of one or several processes. */
export type ReportedFigures = { readonly [F in keyof typeof processFigures | keyof typeof deciderFigures]: number } & {
  readonly [F in keyof typeof partFigures]?: number | undefined;
};

/** The state of the store. Times in milliseconds. */
export interface StoreFacts {
  readonly isUp: boolean;
  /** Why it is down; undefined: it is up. */
  readonly reason: string | undefined;
  readonly latencyMs: number | undefined;
  readonly lastSuccessAtMs: number | undefined;
}

/** The last valid rules. */
export interface RulesInForceFacts {
  readonly atMs: number;
  readonly hash: string;
  readonly isNewest: boolean;
}

/** What a page shows of the whole instance. */
export interface InstanceFacts {
  /** Whether requests can be decided. */
  readonly isReady: boolean;
  readonly figures: ReportedFigures;
  /** For each node of the store, the number of processes whose circuit to it is open. */
  readonly openCircuits: ReadonlyMap<string, number>;
  /** Undefined: counters are in memory. */
  readonly store: StoreFacts | undefined;
  readonly background: readonly WorkReport[];
  /** Undefined: this is the only site. */
  readonly sites: SitesReport | undefined;
  readonly rules: RuleTree | undefined;
  readonly inForce: RulesInForceFacts | undefined;
  /** Workers that replaced one that ended. */
  readonly restarts: number;
  readonly version: string;
  /** Counts of descriptors that matched no rule. */
  readonly unmatched: readonly { readonly domain: string; readonly reason: string; readonly count: number }[];
  /** Likely mistakes in the configurations of proxies, by kind. */
  readonly findings: ReadonlyMap<string, number>;
  readonly overrides: readonly { readonly domain: string; readonly effect: { readonly kind: string } }[];
  readonly candidate: CandidateFigures;
}

interface CandidateFigures {
  readonly isOn: boolean;
  /** Undefined: there are no figures. */
  readonly report: TrialFigures | undefined;
}

interface TrialFigures {
  readonly inFlight: number;
  readonly failed: number;
  readonly dropped: Readonly<Record<string, number>>;
  readonly rules: readonly TriedTally[];
}

/** Descriptors of a rule by both decisions. */
interface TriedTally {
  readonly rule: string;
  readonly requests: number;
  readonly liveRefused: number;
  readonly candidateRefused: number;
  readonly newlyRefused: number;
  readonly newlyPassed: number;
}

/** The exchanges with each other site. `add: last` takes the figure of the process that was answered last. */
export const peerRows = {
  exchanges: counter('weir_site_exchanges_total', 'Exchanges with another site.', { labels: ['peer'] }),
  failures: counter('weir_site_failures_total', 'Exchanges that another site did not answer.', { labels: ['peer'] }),
  failing: gauge(
    'weir_site_failing',
    'Consecutive exchanges that another site did not answer; 0 while exchanges succeed or none are needed.',
    { labels: ['peer'], add: 'max' },
  ),
  borrowed: counter('weir_site_borrowed_hits_total', 'Hits of shared limits that were borrowed from another site.', {
    labels: ['peer'],
  }),
  untimely: counter(
    'weir_site_untimely_total',
    'Loans that were not accepted: they came too late, or the clocks of the sites are too far apart.',
    { labels: ['peer'] },
  ),
  asked: counter(undefined, 'Calls from another site that were answered here.'),
  roundTripMs: gauge('weir_site_round_trip_seconds', 'Duration of the last exchange with another site.', {
    labels: ['peer'],
    add: 'last',
    shown: seconds,
  }),
};

/** What a page shows besides the counts of rules. */
interface PageFacts extends InstanceFacts {
  readonly statistics: Counts;
  readonly durations: Histogram;
}

type ProcessFacts = Pick<InstanceFacts, 'figures'> & { readonly probe: ProcessProbe };

const ofProcesses = rowsFor<ProcessFacts>();

/** What pages show of processes. */
export const processRows: readonly ReadRow<ProcessFacts>[] = [
  ...ofProcesses.keyed(processFigures, ({ figures }, key) => figures[key]),
  ofProcesses.counter(
    'process_cpu_seconds_total',
    'User and system CPU time in seconds, of all processes.',
    ({ figures }) => figures.userSeconds + figures.systemSeconds,
  ),
  ...probeRows.map((row) => ({ ...row, read: ({ probe }: ProcessFacts) => row.read(probe) })),
];

const ofPage = rowsFor<PageFacts>();

/** All metrics of the debug port but those of rules and of processes. */
export const serviceRows: readonly ReadRow<PageFacts>[] = [
  ...ofPage.keyed(tallyRows, ({ statistics }, key) => tallySamples(statistics[key])),
  ...ofPage.keyed(sumRows, ({ statistics: { sums } }, key) => sums[key]),
  ...ofPage.keyed({ ...deciderFigures, ...partFigures }, ({ figures }, key) => figures[key]),
  ...ofPage.keyed(peerRows, ({ sites }, key) => sites?.peers.map((peer) => [peer.site, peer[key]])),
  ofPage.counter(
    'weir_unmatched_total',
    'Descriptors that matched no rule, by reason: see /api/v1/unmatched.',
    ({ unmatched }) => unmatched.map(({ domain, reason, count }) => [[domain, reason], count]),
    { labels: ['domain', 'reason'] },
  ),
  ofPage.gauge(
    'weir_findings',
    'Likely mistakes in the configurations of proxies, by kind: see /api/v1/findings.',
    ({ findings }) => findings,
    { labels: ['kind'] },
  ),
  ofPage.gauge(
    'weir_background_failing',
    '1 while work beside the answers fails, which is tried again, else 0; only for work that is on.',
    ({ background }) => {
      const failing = new Map(background.map(({ name }): [string, number] => [name, 0]));
      for (const work of background) if (work.failing) failing.set(work.name, 1);
      return failing;
    },
    { labels: ['function'] },
  ),
  ofPage.gauge(
    'weir_overrides',
    'Limits, blocks and exemptions that operators have set for single descriptors: see /api/v1/overrides.',
    ({ overrides, rules }) =>
      overrides.map(({ domain, effect }) => [[rules?.domains.has(domain) ? domain : OTHER, effect.kind], 1]),
    { labels: ['domain', 'effect'] },
  ),
  ofPage.gauge(
    'weir_candidate_on',
    '1 while a candidate is tried; 0 if there is none or it is invalid: see /api/v1/candidate.',
    ({ candidate }) => Number(candidate.isOn),
  ),
  ofPage.counter(
    'weir_candidate_decisions_total',
    'Descriptors by the decisions of the live rules and of the candidate: ok or refused.',
    ({ candidate: { report } }) => report?.rules.slice(0, MAX_TRIED_RULES).flatMap(triedDecisions),
    { labels: ['rule', 'live', 'candidate'] },
  ),
  ofPage.counter(
    'weir_candidate_dropped_total',
    'Requests not tried on the candidate, by reason: behind or overload.',
    ({ candidate: { report } }) => report && Object.entries(report.dropped),
    { labels: ['reason'] },
  ),
  ofPage.counter(
    'weir_candidate_failed_total',
    "Requests for which the candidate's counters did not reply.",
    ({ candidate: { report } }) => report?.failed,
  ),
  ofPage.gauge(
    'weir_candidate_in_flight',
    'Requests that are being tried on the candidate, or wait for it.',
    ({ candidate: { report } }) => report?.inFlight,
  ),
  ofPage.counter(
    'weir_domain_answers_total',
    'Requests answered, by domain and overall code; only domains with rules.',
    ({ statistics: { domainAnswers }, rules }) =>
      [...new Set([...(rules?.domains.keys() ?? []), ...domainAnswers.keys()])].flatMap((domain) =>
        (['OK', 'OVER_LIMIT'] as const).map(
          (code): MetricSample => [[domain, code], domainAnswers.get(domain)?.[code] ?? 0],
        ),
      ),
    { labels: ['domain', 'code'] },
  ),
  ofPage.gauge(
    'weir_rule_limit',
    'Hits that pass in a window, by rule; window in seconds.',
    ({ rules }) => limitSamples(rules),
    { labels: ['domain', 'rule', 'algorithm', 'name', 'window', 'shadow', 'active'] },
  ),
  ofPage.gauge(
    'weir_site_error_ratio',
    'Excess over the shared limit that is furthest beyond its bound, in the last minute, as a part of the limit.',
    ({ sites }) => sites?.errorRatio,
  ),
  ofPage.gauge(
    'weir_site_error_bound',
    'The max_error of the limit in weir_site_error_ratio.',
    ({ sites }) => sites?.errorBound,
  ),
  ofPage.gauge('weir_store_up', '1 while the counters can be reached, checked once a second, else 0.', ({ store }) =>
    Number(store?.isUp !== false),
  ),
  ofPage.gauge(
    'weir_store_latency_seconds',
    'Duration of the last store check that was answered.',
    ({ store }) => store?.latencyMs,
    { shown: seconds },
  ),
  ofPage.histogram(
    'weir_store_call_duration_seconds',
    'Time from a call to the store to its reply, less that for which this process did not run if it was most of it, estimated from one call in 16.',
    ({ statistics: { storeCalls, sums }, store }) => {
      const bounds = storeCallBounds.map(seconds);
      const counts = [...storeCallBounds.map(String), 'longer'].map((bucket) => storeCalls[bucket] ?? 0);
      const isKnown = store !== undefined || counts.some((count) => count > 0); // a new decider has no store at first
      return isKnown ? [[[], { bounds, counts, sum: seconds(sums.storeMs) }]] : undefined;
    },
  ),
  ofPage.gauge(
    'weir_store_last_success_timestamp_seconds',
    'When the store last answered.',
    ({ store }) => store?.lastSuccessAtMs,
    { shown: seconds },
  ),
  ofPage.gauge(
    'weir_store_circuit_open',
    'Processes whose circuit to a store node is open because it did not answer: they call it rarely or not at all.',
    ({ openCircuits }) => openCircuits,
    { labels: ['node'] },
  ),
  ofPage.gauge(
    'weir_rules_loaded_timestamp_seconds',
    'When the rules in force were loaded.',
    ({ inForce }) => inForce?.atMs,
    { shown: seconds },
  ),
  ofPage.gauge(
    'weir_rules_newest',
    '1 while the rules in force are the newest, 0 while newer rules are invalid or cannot be read.',
    ({ inForce }) => inForce && Number(inForce.isNewest),
  ),
  ofPage.gauge('weir_rules_info', 'The hash of the rules in force.', ({ inForce }) => inForce && [[inForce.hash, 1]], {
    labels: ['hash'],
  }),
  ofPage.counter(
    'weir_worker_restarts_total',
    'Workers started to replace one that ended.',
    ({ restarts }) => restarts,
  ),
  ofPage.gauge(
    'weir_build_info',
    'The version of the service, and of Node.',
    ({ version }) => [[[version, nodeVersion], 1]],
    { labels: ['version', 'node'] },
  ),
  ofPage.gauge('weir_ready', '1 while requests can be decided, else 0.', ({ isReady }) => Number(isReady)),
  ofPage.histogram(
    'weir_call_duration_seconds',
    'Time from a decoded call to its answer, by method and gRPC status.',
    ({ durations }) => durations.samples(),
    { labels: ['method', 'grpc_status'] },
  ),
];

/** The most rules listed: scrapers limit the size of a page. */
const MAX_TRIED_RULES = 2_000;
const MAX_LIMITS = 10_000;

function triedDecisions({ rule, ...tally }: TriedTally): readonly MetricSample[] {
  const { requests, liveRefused, candidateRefused, newlyRefused, newlyPassed } = tally;
  return [
    [[rule, 'ok', 'ok'], requests - liveRefused - newlyRefused],
    [[rule, 'ok', 'refused'], newlyRefused],
    [[rule, 'refused', 'ok'], newlyPassed],
    [[rule, 'refused', 'refused'], candidateRefused - newlyRefused],
  ];
}

function limitSamples(rules: RuleTree | undefined): Iterable<MetricSample> {
  const samples = new Map<string, MetricSample>(); // limits may differ only in what is not shown
  for (const { domain, levels, limits } of rules?.rules ?? [])
    for (const one of limits) {
      const labels = limitLabels(domain, levels, one);
      if (samples.size < MAX_LIMITS) samples.set(JSON.stringify(labels), [labels, one.limit.requestsPerUnit]);
    }
  return samples.values();
}

const limitLabels = (domain: string, levels: readonly string[], { limit, label, policy, times }: RuleLimit) => [
  ...[domain, levels.join('.'), namedAlgorithm(limit), label.name, String(limit.windowMs / 1_000)],
  ...[String(policy.shadow ?? false), ...(times ? [times.active.text] : [])],
];
