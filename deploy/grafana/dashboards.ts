/** Grafana's dashboards as code. `npm run docs` writes them into the chart, for compose and the chart's ConfigMap. */

interface Query {
  readonly expr: string;
  readonly legend: string;
}

interface PanelOptions {
  readonly title: string;
  readonly description: string;
  readonly unit?: string;
  readonly kind?: 'timeseries' | 'stat' | 'table';
  /** In 24ths of the page's width. */
  readonly width?: number;
  readonly queries: readonly Query[];
}

interface Variable {
  readonly name: string;
  readonly label: string;
  readonly query: string;
}

const PANEL_HEIGHT = 8;
const PAGE_WIDTH = 24;
const SOURCE = { type: 'prometheus', uid: '$datasource' };

/** Every series of the chosen instances. */
const OF_INSTANCES = 'job=~"$job", instance=~"$instance"';
/** Every series of the chosen rules. */
const OF_RULES = `${OF_INSTANCES}, domain=~"$domain", rule=~"$rule"`;

const rate = (metric: string, selector: string): string => `rate(${metric}{${selector}}[$__rate_interval])`;

const byRule = (metric: string): string => `sum by (domain, rule) (${rate(metric, OF_RULES)})`;
const RULE = '{{domain}} {{rule}}';

const service: readonly PanelOptions[] = [
  {
    title: 'Ready instances',
    description: 'Instances that can decide requests: rules are loaded, and the counters have been reached.',
    kind: 'stat',
    width: 4,
    queries: [{ expr: `sum(weir_ready{${OF_INSTANCES}})`, legend: 'ready' }],
  },
  {
    title: 'Answers',
    description: 'Requests answered, by overall code.',
    unit: 'reqps',
    width: 10,
    queries: [{ expr: `sum by (code) (${rate('weir_answers_total', OF_INSTANCES)})`, legend: '{{code}}' }],
  },
  {
    title: 'Requests without an answer',
    description:
      'store: their counters could not be reached. service: they were invalid, or arrived before rules were loaded.',
    unit: 'reqps',
    width: 10,
    queries: [{ expr: `sum by (by) (${rate('weir_failures_total', OF_INSTANCES)})`, legend: '{{by}}' }],
  },
  {
    title: 'Time to decide',
    description:
      'From a decoded call to its answer. Calls that a rule holds (max_delay) count with the time they are held.',
    unit: 's',
    width: 12,
    queries: ['0.5', '0.95', '0.99'].map((quantile) => ({
      expr: `histogram_quantile(${quantile}, sum by (le) (${rate('weir_call_duration_seconds_bucket', `${OF_INSTANCES}, method="ShouldRateLimit"`)}))`,
      legend: `p${Number(quantile) * 100}`,
    })),
  },
  {
    title: 'Calls by gRPC status',
    description: '0 is OK, 3 INVALID_ARGUMENT, 4 DEADLINE_EXCEEDED, 8 RESOURCE_EXHAUSTED, 14 UNAVAILABLE.',
    unit: 'reqps',
    width: 12,
    queries: [
      {
        expr: `sum by (grpc_status) (${rate('weir_call_duration_seconds_count', OF_INSTANCES)})`,
        legend: '{{grpc_status}}',
      },
    ],
  },
  {
    title: 'Open circuits',
    description: 'Processes that have stopped calling a store node because it did not answer in time.',
    width: 8,
    queries: [{ expr: `sum by (node) (weir_store_circuit_open{${OF_INSTANCES}})`, legend: '{{node}}' }],
  },
  {
    title: 'Hits decided without the store',
    description: 'By on_store_failure of their limits: allow, deny or local; local also by on_overload.',
    unit: 'reqps',
    width: 8,
    queries: [{ expr: `sum by (policy) (${rate('weir_hits_degraded_total', OF_INSTANCES)})`, legend: '{{policy}}' }],
  },
  {
    title: 'Requests without a decision',
    description: 'By reason. Proxies let them pass unless failure_mode_deny is on.',
    unit: 'reqps',
    width: 8,
    queries: [{ expr: `sum by (reason) (${rate('weir_undecided_total', OF_INSTANCES)})`, legend: '{{reason}}' }],
  },
  {
    title: 'Leases',
    description: 'Hits answered from a lease, and hits that are leased and not used.',
    width: 8,
    queries: [
      { expr: `sum(${rate('weir_hits_from_lease_total', OF_INSTANCES)})`, legend: 'answered from leases, per second' },
      { expr: `sum(weir_leased_hits{${OF_INSTANCES}})`, legend: 'leased and unused' },
    ],
  },
  {
    title: 'Rule loads',
    description: 'error: new rules were rejected; the previous rules stayed in force.',
    width: 8,
    queries: [
      { expr: `sum by (outcome) (increase(weir_rule_loads_total{${OF_INSTANCES}}[$__range]))`, legend: '{{outcome}}' },
    ],
  },
  {
    title: 'Connections and streams ended',
    description: 'Because the client broke the protocol or a limit, by HTTP/2 error code.',
    unit: 'cps',
    width: 8,
    queries: [{ expr: `sum by (code) (${rate('weir_http2_errors_total', OF_INSTANCES)})`, legend: '{{code}}' }],
  },
  {
    title: 'Store',
    description: '1 while the counters can be reached, checked once a second whether or not there are requests.',
    width: 8,
    queries: [{ expr: `weir_store_up{${OF_INSTANCES}}`, legend: '{{instance}}' }],
  },
  {
    title: 'Latency of the store',
    description: 'Of the last store check that was answered.',
    unit: 's',
    width: 8,
    queries: [{ expr: `weir_store_latency_seconds{${OF_INSTANCES}}`, legend: '{{instance}}' }],
  },
  {
    title: 'Calls in flight',
    description: 'Calls being handled or waiting, and how many of them a rule holds (max_delay).',
    width: 8,
    queries: [
      { expr: `sum(weir_calls_in_flight{${OF_INSTANCES}})`, legend: 'in flight' },
      { expr: `sum(weir_calls_held{${OF_INSTANCES}})`, legend: 'held' },
    ],
  },
  {
    title: 'Connections',
    description: 'Of callers, gRPC and HTTP.',
    width: 8,
    queries: [{ expr: `sum by (instance) (weir_connections{${OF_INSTANCES}})`, legend: '{{instance}}' }],
  },
  {
    title: 'Counters in memory',
    description: 'Counters in memory, and counters evicted before they expired, per second.',
    width: 8,
    queries: [
      { expr: `sum(weir_memory_counters{${OF_INSTANCES}})`, legend: 'counters' },
      { expr: `sum(${rate('weir_memory_counters_evicted_total', OF_INSTANCES)})`, legend: 'evicted, per second' },
    ],
  },
  {
    title: 'Versions',
    description: 'Instances by version of Weir and of Node, and by the hash of the rules in force.',
    kind: 'table',
    width: 8,
    queries: [
      { expr: `count by (version, node) (weir_build_info{${OF_INSTANCES}})`, legend: '{{version}} {{node}}' },
      { expr: `count by (hash) (weir_rules_info{${OF_INSTANCES}})`, legend: '{{hash}}' },
    ],
  },
  {
    title: 'Workers restarted',
    description: 'Workers that ended and were replaced, with WORKERS above 1.',
    width: 8,
    queries: [
      {
        expr: `sum by (instance) (increase(weir_worker_restarts_total{${OF_INSTANCES}}[$__range]))`,
        legend: '{{instance}}',
      },
    ],
  },
  {
    title: 'Processor',
    description: 'Cores, of all processes.',
    width: 8,
    queries: [{ expr: rate('process_cpu_seconds_total', OF_INSTANCES), legend: '{{instance}}' }],
  },
  {
    title: 'Memory',
    description: 'Resident memory of all processes, and the heap that is in use in the one that serves operators.',
    unit: 'bytes',
    width: 8,
    queries: [
      { expr: `process_resident_memory_bytes{${OF_INSTANCES}}`, legend: '{{instance}} resident' },
      { expr: `nodejs_heap_size_used_bytes{${OF_INSTANCES}}`, legend: '{{instance}} heap' },
    ],
  },
  {
    title: 'Event loop lag',
    description: 'How late timers are in the process that serves operators: 99th percentile since the previous scrape.',
    unit: 's',
    width: 8,
    queries: [{ expr: `nodejs_eventloop_lag_p99_seconds{${OF_INSTANCES}}`, legend: '{{instance}}' }],
  },
];

const rules: readonly PanelOptions[] = [
  {
    title: 'Hits',
    description: 'Requested hits, by rule.',
    unit: 'reqps',
    width: 12,
    queries: [{ expr: byRule('weir_hits_total'), legend: RULE }],
  },
  {
    title: 'Hits beyond the limit',
    description: 'Refused, unless the rule is in shadow mode.',
    unit: 'reqps',
    width: 12,
    queries: [{ expr: byRule('weir_hits_over_limit_total'), legend: RULE }],
  },
  {
    title: 'Share beyond the limit',
    description:
      'Of the hits of each rule. A rule that stays near 0 % may be too generous; one near 100 % refuses some client all the time.',
    unit: 'percentunit',
    width: 12,
    queries: [{ expr: `${byRule('weir_hits_over_limit_total')} / (${byRule('weir_hits_total')} > 0)`, legend: RULE }],
  },
  {
    title: 'Highest share of the limit in use',
    description:
      'Of any counter of the rule in the last minute. Above 1, hits beyond the limit were counted or let pass.',
    unit: 'percentunit',
    width: 12,
    queries: [{ expr: `max by (domain, rule) (weir_rule_highest_share{${OF_RULES}})`, legend: RULE }],
  },
  {
    title: 'Limits in force',
    description: 'Hits that pass in a window, and the length of the window in seconds.',
    kind: 'table',
    width: 12,
    queries: [
      { expr: `max by (domain, rule, algorithm, window, shadow) (weir_rule_limit{${OF_RULES}})`, legend: RULE },
    ],
  },
  {
    title: 'Hits near the limit',
    description: 'Above NEAR_LIMIT_RATIO of the limit, and within it.',
    unit: 'reqps',
    width: 12,
    queries: [{ expr: byRule('weir_hits_near_limit_total'), legend: RULE }],
  },
  {
    title: 'Hits that shadow mode let pass',
    description: 'They would be refused without shadow_mode.',
    unit: 'reqps',
    width: 8,
    queries: [{ expr: byRule('weir_hits_shadowed_total'), legend: RULE }],
  },
  {
    title: 'Hits on the soft part of a limit',
    description: 'They passed, and were flagged.',
    unit: 'reqps',
    width: 8,
    queries: [{ expr: byRule('weir_hits_soft_limit_total'), legend: RULE }],
  },
  {
    title: 'Refusals from the local cache',
    description: 'Without asking the store.',
    unit: 'reqps',
    width: 8,
    queries: [{ expr: byRule('weir_hits_over_limit_from_cache_total'), legend: RULE }],
  },
  {
    title: 'Rules that refused most',
    description: 'Hits beyond the limit in the time shown.',
    kind: 'table',
    width: 12,
    queries: [
      {
        expr: `topk(20, sum by (domain, rule, algorithm) (increase(weir_hits_over_limit_total{${OF_RULES}}[$__range])))`,
        legend: RULE,
      },
    ],
  },
  {
    title: 'Hits within the limit',
    description: 'What passed.',
    unit: 'reqps',
    width: 12,
    queries: [{ expr: byRule('weir_hits_within_limit_total'), legend: RULE }],
  },
  {
    title: 'Domains without rules',
    description: 'Descriptors that nothing limits because their domain has no rules: often a wrong name in the proxy.',
    unit: 'reqps',
    width: 12,
    queries: [{ expr: `sum by (domain) (${rate('weir_domain_not_found_total', OF_INSTANCES)})`, legend: '{{domain}}' }],
  },
  {
    title: 'Requests that SHADOW_MODE let pass',
    description: 'Over a limit, of any rule, while the whole service answers OK.',
    unit: 'reqps',
    width: 12,
    queries: [{ expr: `sum(${rate('weir_global_shadow_mode_total', OF_INSTANCES)})`, legend: 'passed' }],
  },
];

const JOB: Variable = { name: 'job', label: 'Job', query: 'label_values(weir_ready, job)' };
const INSTANCE: Variable = {
  name: 'instance',
  label: 'Instance',
  query: 'label_values(weir_ready{job=~"$job"}, instance)',
};
const DOMAIN: Variable = {
  name: 'domain',
  label: 'Domain',
  query: 'label_values(weir_hits_total{job=~"$job"}, domain)',
};
const RULE_VARIABLE: Variable = {
  name: 'rule',
  label: 'Rule',
  query: 'label_values(weir_hits_total{job=~"$job", domain=~"$domain"}, rule)',
};

/** The contents of the dashboard files, by path in the project. */
export const dashboards: ReadonlyMap<string, string> = new Map([
  [
    'deploy/helm/weir/files/dashboards/service.json',
    dashboard('weir-service', 'Weir: service', [JOB, INSTANCE], service),
  ],
  [
    'deploy/helm/weir/files/dashboards/rules.json',
    dashboard('weir-rules', 'Weir: rules', [JOB, INSTANCE, DOMAIN, RULE_VARIABLE], rules),
  ],
]);

function dashboard(
  uid: string,
  title: string,
  variables: readonly Variable[],
  panels: readonly PanelOptions[],
): string {
  const model = {
    uid,
    title,
    tags: ['weir'],
    schemaVersion: 39,
    editable: true,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    templating: {
      list: [
        { type: 'datasource', name: 'datasource', label: 'Data source', query: 'prometheus' },
        ...variables.map(variableModel),
      ],
    },
    panels: placed(panels).map(panelModel),
  };
  return `${JSON.stringify(model, null, 1)}\n`;
}

function variableModel({ name, label, query }: Variable): object {
  return {
    type: 'query',
    name,
    label,
    datasource: SOURCE,
    query: { query, refId: name },
    refresh: 2, // on every change of the time range
    includeAll: true,
    multi: true,
    allValue: '.*',
    current: { text: 'All', value: '$__all' },
  };
}

/** Places panels from left to right; a panel that does not fit starts a new row. */
function placed(panels: readonly PanelOptions[]): readonly (readonly [PanelOptions, object])[] {
  let x = 0;
  let y = 0;
  return panels.map((panel) => {
    const { width: w = PAGE_WIDTH } = panel;
    if (x + w > PAGE_WIDTH) {
      x = 0;
      y += PANEL_HEIGHT;
    }
    const gridPos = { x, y, w, h: PANEL_HEIGHT };
    x += w;
    return [panel, gridPos];
  });
}

function panelModel([panel, gridPos]: readonly [PanelOptions, object], at: number): object {
  const { kind = 'timeseries', title, description, unit = 'short', queries } = panel;
  return {
    id: at + 1,
    type: kind,
    title,
    description,
    gridPos,
    datasource: SOURCE,
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(({ expr, legend }, index) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + index),
      datasource: SOURCE,
      expr,
      legendFormat: legend,
      ...(kind === 'table' && { format: 'table', instant: true }),
    })),
  };
}
