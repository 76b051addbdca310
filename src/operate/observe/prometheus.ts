import type { Registry } from 'prom-client';
import { storeFailurePolicies } from '../../engine/algorithms/limit.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { createDurations, type DurationTotals } from './duration-histogram.ts';
import {
  beginMetric,
  betweenMetrics,
  contentTypes,
  type Exposition,
  type ExpositionFormat,
  toOpenMetrics,
  writeLabels,
  writeSeries,
} from './exposition.ts';
import type { StoreGauges } from './registry.ts';
import { type HitCounts, type HoldCounts, NO_HITS, type ReservationCounts, type RuleCounts } from './rule-counts.ts';
import { type ServiceGauges, writeServiceGauges } from './service-gauges.ts';
import type { Statistics, Sums } from './stats.ts';

/** The metrics of this process for Prometheus. */
export interface Metrics {
  /** The set of series is that of the time of the call. */
  render(format?: ExpositionFormat): Promise<Exposition>;
  /** Records a call of a method such as `ShouldRateLimit`: its gRPC status (0 is OK), and its duration. */
  onCallFinished(method: string, grpcStatus: number, elapsedMs: number): void;
  /** Durations of all calls so far. */
  durations(): DurationTotals;
}

/** A counter that each rule has. */
interface RuleCounter {
  readonly name: string;
  readonly help: string;
  of(counts: HitCounts): number;
}

const RULE_COUNTERS: readonly RuleCounter[] = [
  { name: 'weir_hits_total', help: 'Hits that a rule counted.', of: ({ totalHits }) => totalHits },
  { name: 'weir_hits_within_limit_total', help: 'Hits that passed.', of: ({ withinLimit }) => withinLimit },
  {
    name: 'weir_hits_near_limit_total',
    help: 'Hits above NEAR_LIMIT_RATIO of the limit.',
    of: ({ nearLimit }) => nearLimit,
  },
  {
    name: 'weir_hits_over_limit_total',
    help: 'Hits beyond the limit, without those that the shadow_mode of a rule let pass.',
    of: ({ overLimitRefused }) => overLimitRefused,
  },
  {
    name: 'weir_hits_over_limit_from_cache_total',
    help: 'Hits beyond the limit that were refused from the local cache.',
    of: ({ overLimitWithLocalCache }) => overLimitWithLocalCache,
  },
  {
    name: 'weir_hits_shadowed_total',
    help: 'Hits beyond the limit that the shadow_mode of a rule let pass.',
    of: ({ shadowMode }) => shadowMode,
  },
  {
    name: 'weir_hits_soft_limit_total',
    help: 'Hits of requests that passed on the soft part of a limit.',
    of: ({ softLimit }) => softLimit,
  },
];

/** A counter of the service, with one label. */
interface LabelledCounter {
  readonly name: string;
  readonly help: string;
  readonly label: string;
  /** Label values that are listed even before they are counted. */
  readonly known?: readonly string[];
  counts(statistics: Statistics): Iterable<readonly [value: string, count: number]>;
}

/** Error codes with which connections and streams are ended. */
const CONNECTION_ERRORS = [
  ...['PROTOCOL_ERROR', 'INTERNAL_ERROR', 'FLOW_CONTROL_ERROR', 'STREAM_CLOSED', 'FRAME_SIZE_ERROR'],
  ...['REFUSED_STREAM', 'COMPRESSION_ERROR', 'ENHANCE_YOUR_CALM', 'TOO_MANY_CONNECTIONS', 'IDLE_CONNECTION'],
];

const LABELLED_COUNTERS: readonly LabelledCounter[] = [
  {
    name: 'weir_answers_total',
    help: 'Requests answered, by overall code.',
    label: 'code',
    counts: ({ answers }) => Object.entries(answers),
  },
  {
    name: 'weir_failures_total',
    help: 'Requests without an answer: the counters could not be reached (store), or anything else (service).',
    label: 'by',
    counts: ({ failures }) => Object.entries(failures),
  },
  {
    name: 'weir_undecided_total',
    help: 'Requests without a decision in time, which their proxy may have let pass, by reason.',
    label: 'reason',
    counts: ({ undecided }) => Object.entries(undecided),
  },
  {
    name: 'weir_domain_not_found_total',
    help: 'Descriptors of domains that have no rules.',
    label: 'domain',
    counts: ({ unknownDomains }) => unknownDomains,
  },
  {
    name: 'weir_hits_degraded_total',
    help: 'Hits decided while their counters could not be reached in time, by policy: on_store_failure, or local for on_overload.',
    label: 'policy',
    known: storeFailurePolicies,
    counts: ({ degraded }) => degraded,
  },
  {
    name: 'weir_http2_errors_total',
    help: 'gRPC connections and streams closed because the client broke the protocol or a limit, or to make room for a new connection, by HTTP/2 error code.',
    label: 'code',
    known: CONNECTION_ERRORS,
    counts: ({ connectionErrors }) => connectionErrors,
  },
  {
    name: 'weir_rule_loads_total',
    help: 'Rule loads, by outcome.',
    label: 'outcome',
    counts: ({ loads }) => Object.entries(loads),
  },
];

/** Counters of the service without labels. */
const SUMS: readonly { readonly name: string; readonly help: string; readonly of: keyof Sums }[] = [
  {
    name: 'weir_hits_from_lease_total',
    help: 'Hits answered from a lease of the process (consistency: leased).',
    of: 'fromLease',
  },
  {
    name: 'weir_decisions_not_logged_total',
    help: 'Decisions that DECISION_LOG did not write, beyond DECISION_LOG_MAX_PER_SECOND.',
    of: 'decisionsNotLogged',
  },
  {
    name: 'weir_requests_recorded_total',
    help: 'Requests that were recorded for weir replay: RECORD_TO.',
    of: 'recorded',
  },
  {
    name: 'weir_requests_not_recorded_total',
    help: 'Requests that were not recorded: beyond RECORD_MAX_PER_SECOND, or the disk was slow or full.',
    of: 'notRecorded',
  },
  {
    name: 'weir_global_shadow_mode_total',
    help: 'Requests over a limit that SHADOW_MODE let pass.',
    of: 'shadowed',
  },
];

/** The most rules listed with zeros before they are hit: scrapers limit the size of a page. */
const MAX_ZERO_RULES = 10_000;

/** A rule with an algorithm: the labels of its series, and its counts. */
type Series = RuleCounts | UnhitRule;

type UnhitRule = Pick<RuleCounts, 'domain' | 'rule' | 'algorithm' | 'named'>;

const countsOf = (series: Series): HitCounts => ('share' in series ? series : NO_HITS);

/** Cached labels of rules whose names do not depend on requests: other labels could need more memory than names do. */
const knownLabels = new WeakMap<Series, string>();

function labelsOf(series: Series): string {
  const known = knownLabels.get(series);
  if (known !== undefined) return known;
  const { domain, rule, algorithm } = series;
  const labels = writeLabels(Object.entries({ domain, rule, algorithm }));
  if (series.named === 'by_rule') knownLabels.set(series, labels);
  return labels;
}

const unhitRules = new WeakMap<RuleTree, readonly UnhitRule[]>();

/** The series listed for rules before they are hit, one for each algorithm of a rule. */
function unhitRulesOf(tree: RuleTree): readonly UnhitRule[] {
  const known = unhitRules.get(tree);
  if (known) return known;
  const byLabels = new Map<string, UnhitRule>();
  if (tree.rules.length <= MAX_ZERO_RULES)
    for (const { domain, levels, named, limits } of tree.rules) {
      // the names of other rules are not known in advance
      for (const { limit } of named === 'by_rule' ? limits : []) {
        const unhit = { domain, rule: levels.join('.'), levels, algorithm: limit.algorithm, named };
        byLabels.set(labelsOf(unhit), unhit);
      }
    }
  const unhit = [...byLabels.values()];
  unhitRules.set(tree, unhit);
  return unhit;
}

/** All counters, one line at a time. */
function* writeCounters(
  statistics: Statistics,
  rules: RuleTree | undefined,
  format: ExpositionFormat,
): Iterable<string> {
  const ofService = LABELLED_COUNTERS.map((counter) => ({ ...counter, counts: withZeros(counter, statistics) }));
  const unhit = rules ? unhitRulesOf(rules) : [];
  const series: readonly Series[] = [...statistics.rules(), ...unhit.filter((one) => !statistics.hasRule(one))];
  for (const { name, help, of } of RULE_COUNTERS) {
    yield beginMetric(name, 'counter', help, format);
    for (const one of series) yield writeSeries(name, labelsOf(one), of(countsOf(one)));
    yield betweenMetrics(format);
  }
  yield* writeRuleAnswers(series, format);
  yield* writeDomainAnswers(statistics, rules, format);
  for (const { name, help, label, counts } of ofService) {
    yield beginMetric(name, 'counter', help, format);
    for (const [value, count] of counts) yield writeSeries(name, writeLabels([[label, value]]), count);
    yield betweenMetrics(format);
  }
  for (const { name, help, of } of SUMS)
    yield `${beginMetric(name, 'counter', help, format)}${writeSeries(name, '', statistics.sums[of])}${betweenMetrics(format)}`;
  yield* writeShares(series, format);
  yield* writeHolds(series, format);
}

const withZeros = ({ known = [], counts }: LabelledCounter, statistics: Statistics) => [
  ...new Map([...known.map((value) => [value, 0] as const), ...counts(statistics)]),
];

function* writeRuleAnswers(series: readonly Series[], format: ExpositionFormat): Iterable<string> {
  const name = 'weir_rule_answers_total';
  yield beginMetric(name, 'counter', 'Descriptors that a rule answered, by code.', format);
  for (const one of series) {
    const start = labelsOf(one).slice(0, -1);
    const counts = countsOf(one);
    yield writeSeries(name, `${start},code="OK"}`, counts.answeredOk);
    yield writeSeries(name, `${start},code="OVER_LIMIT"}`, counts.answeredOver);
  }
  yield betweenMetrics(format);
}

function* writeDomainAnswers(
  { domainAnswers }: Statistics,
  rules: RuleTree | undefined,
  format: ExpositionFormat,
): Iterable<string> {
  const name = 'weir_domain_answers_total';
  yield beginMetric(name, 'counter', 'Requests answered, by domain and overall code; only domains with rules.', format);
  for (const domain of new Set([...(rules?.domains.keys() ?? []), ...domainAnswers.keys()])) {
    for (const code of ['OK', 'OVER_LIMIT'] as const) {
      const labels = writeLabels(Object.entries({ domain, code }));
      yield writeSeries(name, labels, domainAnswers.get(domain)?.[code] ?? 0);
    }
  }
  yield betweenMetrics(format);
}

function* writeShares(series: readonly Series[], format: ExpositionFormat): Iterable<string> {
  const name = 'weir_rule_highest_share';
  const help =
    'The highest share of its limit that any counter of a rule had used in the last minute (60 to 75 seconds); above 1 if hits beyond the limit are counted.';
  yield beginMetric(name, 'gauge', help, format);
  for (const one of series) if ('share' in one) yield writeSeries(name, labelsOf(one), one.share.value);
  yield betweenMetrics(format);
}

function* writeHolds(series: readonly Series[], format: ExpositionFormat): Iterable<string> {
  const held = series.flatMap((one) => ('share' in one && one.holds ? [[labelsOf(one), one.holds] as const] : []));
  const reserved = series.flatMap((one) =>
    'share' in one && one.reservations ? [[labelsOf(one), one.reservations] as const] : [],
  );
  yield* writeSome(held, holdMetrics, format);
  yield* writeSome(reserved, reservationMetrics, format);
}

/** Metrics that only some rules have. */
function* writeSome<C>(
  series: readonly (readonly [labels: string, counts: C])[],
  metrics: readonly RuleMetric<C>[],
  format: ExpositionFormat,
): Iterable<string> {
  if (series.length === 0) return;
  for (const [name, type, help, read] of metrics) {
    yield beginMetric(name, type, help, format);
    for (const [labels, counts] of series) yield writeSeries(name, labels, read(counts));
    yield betweenMetrics(format);
  }
}

type RuleMetric<C> = readonly [name: string, type: 'gauge' | 'counter', help: string, read: (counts: C) => number];
const reservationMetrics: readonly RuleMetric<ReservationCounts>[] = [
  [
    'weir_reservations_held_hits',
    'gauge',
    'The most hits on hold that any counter of a rule had in the last minute (60 to 75 seconds).',
    ({ held }) => held.value,
  ],
  ['weir_reservations_reserved_hits_total', 'counter', 'Hits that were reserved.', ({ reserved }) => reserved],
  ['weir_reservations_committed_hits_total', 'counter', 'Hits that commits charged.', ({ committed }) => committed],
  [
    'weir_reservations_overrun_hits_total',
    'counter',
    'Hits that were used beyond those reserved; with on_overrun: clip they are not charged.',
    ({ overrun }) => overrun,
  ],
  [
    'weir_reservations_late_total',
    'counter',
    'Commits whose reservation had expired: their requests outlived the ttl.',
    ({ late }) => late,
  ],
  [
    'weir_reservations_unknown_total',
    'counter',
    'Commits of requests that had reserved nothing, or whose reservation was lost; they are still charged.',
    ({ unknown }) => unknown,
  ],
  ['weir_reservations_repeated_total', 'counter', 'Repeated commits, which were ignored.', ({ repeated }) => repeated],
];
const holdMetrics: readonly RuleMetric<HoldCounts>[] = [
  [
    'weir_slots_held',
    'gauge',
    'The most slots that any counter of a rule held in the last minute (60 to 75 seconds).',
    ({ held }) => held.value,
  ],
  [
    'weir_slots_oldest_seconds',
    'gauge',
    'The longest that any slot of a rule had been held in the last minute (60 to 75 seconds).',
    ({ oldestMs }) => oldestMs.value / 1_000,
  ],
  [
    'weir_slots_expired_total',
    'counter',
    'Slots not released before their ttl ended: their requests outlived it, or their releases were lost.',
    ({ expired }) => expired,
  ],
];

/**
 * @param isReady  whether the service can decide requests now
 */
export function createMetrics(
  statistics: Statistics,
  isReady: () => boolean,
  store: StoreGauges,
  service?: ServiceGauges,
): Metrics {
  const durations = createDurations(
    'weir_call_duration_seconds',
    'Time from a decoded call to its answer, by method and gRPC status.',
  );
  let registry: Promise<Registry> | undefined;
  /** Loads prom-client at the first scrape: a service that is not scraped does not need it. */
  const openRegistry = async (): Promise<Registry> => {
    const { createRegistry } = await import('./registry.ts');
    return createRegistry(isReady, store, durations);
  };
  return {
    async render(format = 'text') {
      const counters = [...writeCounters(statistics, service?.rules(), format)].join('');
      const gauges = service ? [...writeServiceGauges(service, format)].join('') : '';
      registry ??= openRegistry();
      const others = await (await registry).metrics();
      const rest = format === 'text' ? others : `${toOpenMetrics(others)}# EOF\n`;
      return { contentType: contentTypes[format], body: Buffer.from(counters + gauges + rest) };
    },
    onCallFinished: durations.observe,
    durations: durations.totals,
  };
}
