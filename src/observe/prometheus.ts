import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { joinInSlices } from '../slices.ts';
import { registerDurations } from './duration-histogram.ts';
import { beginMetric, type Exposition, writeLabels, writeSeries } from './exposition.ts';
import type { RuleCounts } from './rule-counts.ts';
import type { Statistics, Sums } from './stats.ts';

/** The numbers of this process for Prometheus to scrape. */
export interface Metrics {
  render(): Promise<Exposition>;
  /** One call of a method such as `ShouldRateLimit`: its gRPC status (0 is OK), and how long it took. */
  called(method: string, grpcStatus: number, elapsedMs: number): void;
}

/** A counter of each rule. */
interface RuleCounter {
  readonly name: string;
  readonly help: string;
  of(counts: RuleCounts): number;
}

const RULE_COUNTERS: readonly RuleCounter[] = [
  { name: 'weir_hits_total', help: 'Hits that a rule counted.', of: ({ totalHits }) => totalHits },
  { name: 'weir_hits_within_limit_total', help: 'Hits that passed.', of: ({ withinLimit }) => withinLimit },
  {
    name: 'weir_hits_near_limit_total',
    help: 'Hits above NEAR_LIMIT_RATIO of the limit.',
    of: ({ nearLimit }) => nearLimit,
  },
  { name: 'weir_hits_over_limit_total', help: 'Hits beyond the limit.', of: ({ overLimit }) => overLimit },
  {
    name: 'weir_hits_over_limit_from_cache_total',
    help: 'Hits beyond the limit, refused from memory of an earlier refusal.',
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
  counts(statistics: Statistics): Iterable<readonly [value: string, count: number]>;
}

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
    name: 'weir_domain_not_found_total',
    help: 'Descriptors of domains that have no rules.',
    label: 'domain',
    counts: ({ unknownDomains }) => unknownDomains,
  },
  {
    name: 'weir_hits_degraded_total',
    help: "Hits that the counters could not be reached for, by the limit's own policy: on_store_failure.",
    label: 'policy',
    counts: ({ degraded }) => degraded,
  },
  {
    name: 'weir_http2_errors_total',
    help: 'Connections and streams of gRPC that were ended since their client broke the protocol or a limit, by error code of HTTP/2.',
    label: 'code',
    counts: ({ connectionErrors }) => connectionErrors,
  },
  {
    name: 'weir_rule_loads_total',
    help: 'Rule loads, by outcome.',
    label: 'outcome',
    counts: ({ loads }) => Object.entries(loads),
  },
];

/** Counters of the service that are one number each. */
const SUMS: readonly { readonly name: string; readonly help: string; readonly of: keyof Sums }[] = [
  {
    name: 'weir_hits_from_lease_total',
    help: 'Hits that were answered from what a process had debited before: consistency: leased.',
    of: 'fromLease',
  },
  {
    name: 'weir_calls_shed_total',
    help: 'Calls that were refused at once since there was more to do than could be done in time.',
    of: 'shedCalls',
  },
  {
    name: 'weir_global_shadow_mode_total',
    help: 'Requests over a limit that SHADOW_MODE let pass.',
    of: 'shadowed',
  },
];

/**
 * All counters, a line at a time. Which series there are is settled at the first line; what rules count is read as each line is written. An empty text
 * is a step of the work without a line.
 */
function* writeCounters(statistics: Statistics): Iterable<string> {
  const rules = statistics.rules();
  const ofService = LABELLED_COUNTERS.map((counter) => ({ ...counter, counts: [...counter.counts(statistics)] }));
  const labelled: (readonly [labels: string, counts: RuleCounts])[] = [];
  for (const counts of rules) {
    const { domain, rule, algorithm } = counts;
    labelled.push([writeLabels(Object.entries({ domain, rule, algorithm })), counts]);
    yield '';
  }
  for (const { name, help, of } of RULE_COUNTERS) {
    yield beginMetric(name, 'counter', help);
    for (const [labels, counts] of labelled) yield writeSeries(name, labels, of(counts));
    yield '\n';
  }
  for (const { name, help, label, counts } of ofService) {
    yield beginMetric(name, 'counter', help);
    for (const [value, count] of counts) yield writeSeries(name, writeLabels([[label, value]]), count);
    yield '\n';
  }
  for (const { name, help, of } of SUMS)
    yield `${beginMetric(name, 'counter', help)}${writeSeries(name, '', statistics.sums[of])}\n`;
}

/** How it stands with the counters. */
export interface StoreGauges {
  /** For each node of the store, how many processes have their circuit to it open. */
  readonly openCircuits: () => ReadonlyMap<string, number>;
  /** Hits that are leased and not used. */
  readonly leased: () => number;
}

/**
 * @param isReady  whether the service can decide requests now
 */
export function createMetrics(
  statistics: Statistics,
  isReady: () => boolean,
  { openCircuits, leased }: StoreGauges,
): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  new Gauge({
    name: 'weir_ready',
    help: '1 while requests can be decided, else 0.',
    registers,
    collect() {
      this.set(isReady() ? 1 : 0);
    },
  });
  const called = registerDurations(
    registry,
    'weir_call_duration_seconds',
    'Time from a decoded call to its answer, by method and gRPC status.',
  );
  new Gauge({
    name: 'weir_leased_hits',
    help: 'Hits that are leased and not used: so much less than their limits may pass, at most.',
    registers,
    collect() {
      this.set(leased());
    },
  });
  new Gauge({
    name: 'weir_store_circuit_open',
    help: 'Processes that ask a node of the store nothing, or only now and then, since it did not answer.',
    labelNames: ['node'],
    registers,
    collect() {
      this.reset();
      for (const [node, processes] of openCircuits()) this.set({ node }, processes);
    },
  });

  return {
    async render() {
      const counters = await joinInSlices(writeCounters(statistics));
      return { contentType: registry.contentType, body: `${counters}${await registry.metrics()}` };
    },
    called,
  };
}
