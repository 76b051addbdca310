import { every } from '../../base/clock.ts';
import type { AdminOptions } from '../admin/options.ts';
import type { DurationTotals } from '../observe/prometheus.ts';
import { ServiceSeries } from './service-series.ts';
import { StoreLatency } from './store-latency.ts';

const INTERVAL_MS = 1_000;

/** Gathers once a second what the service does: requests by outcome, and the latency of the store. */
export class Gatherer {
  readonly startedAtMs: number;
  readonly service = new ServiceSeries();
  readonly latency = new StoreLatency();
  readonly #options: AdminOptions;
  readonly #durations: () => DurationTotals;
  readonly #listeners: ((nowMs: number) => void)[] = [];
  readonly close: () => void;

  /** @param durations  those of all calls so far */
  constructor(options: AdminOptions, durations: () => DurationTotals) {
    this.#options = options;
    this.#durations = durations;
    this.startedAtMs = options.clock();
    this.service.begin(options.statistics);
    this.close = every(INTERVAL_MS, () => this.#tick());
  }

  /** Calls the listener each second, after what is gathered here. */
  onSecond(listener: (nowMs: number) => void): void {
    this.#listeners.push(listener);
  }

  #tick(): void {
    const { statistics, figures, clock, store } = this.#options;
    const nowMs = clock();
    const state = store();
    this.latency.gather(statistics.storeCalls, state?.isUp ? state.latencyMs : undefined);
    const lags = { lagMs: figures().latenessMs, store: this.latency.minute() };
    this.service.gather(statistics, this.#durations(), lags);
    for (const listener of this.#listeners) listener(nowMs);
  }
}
