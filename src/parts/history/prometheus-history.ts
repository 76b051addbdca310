import type { Clock } from '../../base/clock.ts';
import { splitCredentials } from '../../base/credentials.ts';
import { type Labels, writeLabels } from '../../operate/observe/metric.ts';
import { type History, type HistoryRange, type HistorySource, historyRanges } from '../../operate/status/history.ts';

const TIMEOUT_MS = 5_000;
/** Rates are those of this time at least: of several scrapes. */
const MIN_RATE_S = 120;

export interface PrometheusOptions {
  /** Its base URL, with user and password if it needs them. */
  readonly url: string;
  /** Labels that select this service, such as its namespace. */
  readonly labels: Labels;
  readonly clock: Clock;
}

/** A field's query for a window of time: `120s`. */
type Queries = Readonly<Record<string, (window: string) => string>>;

/** Reads the history of this service from Prometheus, by fixed queries. */
export class PrometheusHistory implements HistorySource {
  readonly #options: PrometheusOptions;

  constructor(options: PrometheusOptions) {
    this.#options = options;
  }

  ofService(range: HistoryRange): Promise<History> {
    const metric = this.#metric();
    const rate =
      (...selected: Parameters<typeof metric>) =>
      (window: string) =>
        `(sum(rate(${metric(...selected)}[${window}])) or vector(0))`;
    const [ok, over] = [rate('weir_answers_total', ['code', 'OK']), rate('weir_answers_total', ['code', 'OVER_LIMIT'])];
    const [okDegraded, overDegraded] = [
      rate('weir_answers_degraded_total', ['code', 'OK']),
      rate('weir_answers_degraded_total', ['code', 'OVER_LIMIT']),
    ];
    const latency =
      (quantile: number, of = 'weir_call') =>
      (window: string) =>
        `1000 * histogram_quantile(${quantile}, sum by (le) (rate(${metric(`${of}_duration_seconds_bucket`)}[${window}])))`;
    return this.#read(range, metric('weir_answers_total'), {
      passed: (window) => `${ok(window)} - ${okDegraded(window)}`,
      refused: (window) => `${over(window)} - ${overDegraded(window)}`,
      degraded: (window) => `${okDegraded(window)} + ${overDegraded(window)}`,
      undecided: rate('weir_undecided_total'),
      unmatched: rate('weir_requests_unmatched_total'),
      p50Ms: latency(0.5),
      p99Ms: latency(0.99),
      storeP50Ms: latency(0.5, 'weir_store_call'),
      storeP99Ms: latency(0.99, 'weir_store_call'),
      lagMs: () => `1000 * max(${metric('weir_process_late_seconds')})`,
    });
  }

  ofRule(domain: string, rule: string, range: HistoryRange): Promise<History> {
    const metric = this.#metric(['domain', domain], ['rule', rule]);
    const rate =
      (...selected: Parameters<typeof metric>) =>
      (window: string) =>
        `sum(rate(${metric(...selected)}[${window}]))`;
    return this.#read(range, metric('weir_rule_answers_total'), {
      passed: rate('weir_rule_answers_total', ['code', 'OK']),
      refused: rate('weir_rule_answers_total', ['code', 'OVER_LIMIT']),
      soft: rate('weir_hits_soft_limit_total'),
      shadow: rate('weir_hits_shadowed_total'),
      share: () => `max(${metric('weir_rule_highest_share')})`,
      expired: rate('weir_slots_expired_total'),
      held: () => `max(${metric('weir_slots_held')})`,
      oldest: () => `max(${metric('weir_slots_oldest_seconds')})`,
      limit: () => `max(${metric('weir_adaptive_limit_slots')})`,
    });
  }

  #metric(...own: Labels) {
    return (name: string, ...more: Labels): string =>
      `${name}${writeLabels([...own, ...more, ...this.#options.labels])}`;
  }

  /** @param present  a series that exists where there is history */
  async #read(range: HistoryRange, present: string, queries: Queries): Promise<History> {
    const { stepMs, rows } = historyRanges[range];
    const endMs = Math.floor(this.#options.clock() / stepMs) * stepMs;
    const startMs = endMs - (rows - 1) * stepMs;
    const window = `${Math.max(stepMs / 1_000, MIN_RATE_S)}s`;
    const read = async (query: string): Promise<readonly (number | undefined)[]> => {
      const row = new Array<number | undefined>(rows).fill(undefined);
      for (const [at, value] of await this.#query(query, startMs, endMs, stepMs))
        row[Math.round((at * 1_000 - startMs) / stepMs)] = Number(value);
      return row;
    };
    const [known = [], ...columns] = await Promise.all(
      [`count(${present})`, ...Object.values(queries).map((query) => query(window))].map(read),
    );
    const first = known.findIndex((value) => value !== undefined);
    const from = first < 0 ? rows : first;
    const fields = Object.keys(queries).flatMap((field, at) => {
      const column = (columns[at] ?? []).slice(from);
      return column.some((value) => value !== undefined) ? [[field, column.map(shown)] as const] : [];
    });
    return { beginsAtMs: startMs + from * stepMs, series: Object.fromEntries(fields) };
  }

  async #query(query: string, startMs: number, endMs: number, stepMs: number): Promise<readonly PrometheusValue[]> {
    const { url, headers } = splitCredentials(this.#options.url);
    const response = await fetch(`${url.replace(/\/$/, '')}/api/v1/query_range`, {
      method: 'POST',
      body: new URLSearchParams({
        query,
        start: String(startMs / 1_000),
        end: String(endMs / 1_000),
        step: String(stepMs / 1_000),
      }),
      headers,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!response.ok) throw new Error(`Prometheus answered ${response.status}`);
    const { data } = (await response.json()) as PrometheusAnswer; // its HTTP API
    return data.result[0]?.values ?? [];
  }
}

type PrometheusValue = readonly [seconds: number, value: string];
interface PrometheusAnswer {
  readonly data: { readonly result: readonly { readonly values: readonly PrometheusValue[] }[] };
}

const shown = (value: number | undefined): number => (value && Number.isFinite(value) ? Math.max(value, 0) : 0);
