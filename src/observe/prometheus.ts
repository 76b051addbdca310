import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { RuleCounts, Statistics } from './stats.ts';

/** The numbers of this process for Prometheus to scrape. */
export interface Metrics {
  /** `text/plain` in Prometheus' exposition format. */
  render(): Promise<{ readonly contentType: string; readonly body: string }>;
  /** One call of the Rate Limit Service: how long it took, and its gRPC status (0 is OK). */
  called(grpcStatus: number, elapsedMs: number): void;
  rulesLoaded(ok: boolean): void;
}

const RULE_METRICS: readonly {
  readonly name: string;
  readonly help: string;
  readonly of: (counts: RuleCounts) => number;
}[] = [
  { name: 'weir_hits_total', help: 'Hits that a rule counted.', of: ({ totalHits }) => totalHits },
  { name: 'weir_hits_within_limit_total', help: 'Hits that passed.', of: ({ withinLimit }) => withinLimit },
  {
    name: 'weir_hits_near_limit_total',
    help: 'Hits above NEAR_LIMIT_RATIO of the limit.',
    of: ({ nearLimit }) => nearLimit,
  },
  { name: 'weir_hits_over_limit_total', help: 'Hits beyond the limit.', of: ({ overLimit }) => overLimit },
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

/** @param isReady  whether the service can decide requests now */
export function createMetrics(statistics: Statistics, isReady: () => boolean): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  for (const { name, help, of } of RULE_METRICS) {
    const labelNames = ['domain', 'rule', 'algorithm'] as const;
    new Counter({
      name,
      help,
      labelNames,
      registers,
      collect() {
        this.reset();
        for (const counts of statistics.rules()) {
          this.inc({ domain: counts.domain, rule: counts.rule, algorithm: counts.algorithm }, of(counts));
        }
      },
    });
  }
  new Counter({
    name: 'weir_answers_total',
    help: 'Requests answered, by overall code.',
    labelNames: ['code'],
    registers,
    collect() {
      this.reset();
      for (const [code, count] of Object.entries(statistics.answers)) this.inc({ code }, count);
    },
  });
  new Counter({
    name: 'weir_domain_not_found_total',
    help: 'Descriptors of domains that have no rules.',
    labelNames: ['domain'],
    registers,
    collect() {
      this.reset();
      for (const [domain, count] of statistics.unknownDomains) this.inc({ domain }, count);
    },
  });
  new Counter({
    name: 'weir_global_shadow_mode_total',
    help: 'Requests over a limit that SHADOW_MODE let pass.',
    registers,
    collect() {
      this.reset();
      this.inc(statistics.shadowed());
    },
  });
  new Gauge({
    name: 'weir_ready',
    help: '1 while requests can be decided, else 0.',
    registers,
    collect() {
      this.set(isReady() ? 1 : 0);
    },
  });
  const loads = new Counter({
    name: 'weir_rule_loads_total',
    help: 'Rule loads, by outcome.',
    labelNames: ['outcome'],
    registers,
  });
  const duration = new Histogram({
    name: 'weir_call_duration_seconds',
    help: 'Time from a decoded call to its answer, by gRPC status.',
    labelNames: ['grpc_status'],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1],
    registers,
  });

  return {
    render: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
    called: (grpcStatus, elapsedMs) => duration.observe({ grpc_status: String(grpcStatus) }, elapsedMs / 1000),
    rulesLoaded: (ok) => loads.inc({ outcome: ok ? 'success' : 'error' }),
  };
}
