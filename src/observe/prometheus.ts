import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { registerDurations } from './duration-histogram.ts';
import type { RuleCounts, Statistics } from './stats.ts';

/** Numbers in Prometheus' exposition format. */
export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

/** The numbers of this process for Prometheus to scrape. */
export interface Metrics {
  render(): Promise<Exposition>;
  /** One call of a method such as `ShouldRateLimit`: its gRPC status (0 is OK), and how long it took. */
  called(method: string, grpcStatus: number, elapsedMs: number): void;
}

/** A counter of what `createStatistics` keeps. */
interface StatisticsCounter {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  samples(statistics: Statistics): Iterable<readonly [labels: Readonly<Record<string, string>>, count: number]>;
}

const ofRules = (name: string, help: string, of: (counts: RuleCounts) => number): StatisticsCounter => ({
  name,
  help,
  labelNames: ['domain', 'rule', 'algorithm'],
  samples: (statistics) =>
    Array.from(statistics.rules(), (counts) => {
      const { domain, rule, algorithm } = counts;
      return [{ domain, rule, algorithm }, of(counts)];
    }),
});

const by = (
  label: string,
  name: string,
  help: string,
  counts: (statistics: Statistics) => Iterable<readonly [string, number]>,
): StatisticsCounter => ({
  name,
  help,
  labelNames: [label],
  samples: (statistics) => Array.from(counts(statistics), ([value, count]) => [{ [label]: value }, count]),
});

const COUNTERS: readonly StatisticsCounter[] = [
  ofRules('weir_hits_total', 'Hits that a rule counted.', ({ totalHits }) => totalHits),
  ofRules('weir_hits_within_limit_total', 'Hits that passed.', ({ withinLimit }) => withinLimit),
  ofRules('weir_hits_near_limit_total', 'Hits above NEAR_LIMIT_RATIO of the limit.', ({ nearLimit }) => nearLimit),
  ofRules('weir_hits_over_limit_total', 'Hits beyond the limit.', ({ overLimit }) => overLimit),
  ofRules(
    'weir_hits_over_limit_from_cache_total',
    'Hits beyond the limit, refused from memory of an earlier refusal.',
    ({ overLimitWithLocalCache }) => overLimitWithLocalCache,
  ),
  ofRules(
    'weir_hits_shadowed_total',
    'Hits beyond the limit that the shadow_mode of a rule let pass.',
    ({ shadowMode }) => shadowMode,
  ),
  ofRules(
    'weir_hits_soft_limit_total',
    'Hits of requests that passed on the soft part of a limit.',
    ({ softLimit }) => softLimit,
  ),
  by('code', 'weir_answers_total', 'Requests answered, by overall code.', ({ answers }) => Object.entries(answers)),
  by(
    'by',
    'weir_failures_total',
    'Requests without an answer: the counters could not be reached (store), or anything else (service).',
    ({ failures }) => Object.entries(failures),
  ),
  by(
    'domain',
    'weir_domain_not_found_total',
    'Descriptors of domains that have no rules.',
    ({ unknownDomains }) => unknownDomains,
  ),
  by(
    'policy',
    'weir_hits_degraded_total',
    "Hits that the counters could not be reached for, by the limit's own policy: on_store_failure.",
    ({ degraded }) => degraded,
  ),
  by(
    'code',
    'weir_http2_errors_total',
    'Connections and streams of gRPC that were ended since their client broke the protocol or a limit, by error code of HTTP/2.',
    ({ connectionErrors }) => connectionErrors,
  ),
  by('outcome', 'weir_rule_loads_total', 'Rule loads, by outcome.', ({ loads }) => Object.entries(loads)),
  {
    name: 'weir_hits_from_lease_total',
    help: 'Hits that were answered from what a process had debited before: consistency: leased.',
    labelNames: [],
    samples: ({ sums }) => [[{}, sums.fromLease]],
  },
  {
    name: 'weir_calls_shed_total',
    help: 'Calls that were refused at once since there was more to do than could be done in time.',
    labelNames: [],
    samples: ({ sums }) => [[{}, sums.shedCalls]],
  },
  {
    name: 'weir_global_shadow_mode_total',
    help: 'Requests over a limit that SHADOW_MODE let pass.',
    labelNames: [],
    samples: ({ sums }) => [[{}, sums.shadowed]],
  },
];

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
  for (const { name, help, labelNames, samples } of COUNTERS) {
    new Counter({
      name,
      help,
      labelNames,
      registers,
      collect() {
        this.reset();
        for (const [labels, count] of samples(statistics)) this.inc(labels, count);
      },
    });
  }
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
    render: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
    called,
  };
}
