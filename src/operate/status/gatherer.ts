import { every } from '../../base/clock.ts';
import type { AdminOptions } from '../admin/options.ts';
import type { DurationTotals } from '../observe/prometheus.ts';
import type { Statistics } from '../observe/stats.ts';
import { type Counted, type Incidents, SLOW_STORE_MS } from './incidents.ts';
import { countOutcomes, ServiceSeries } from './service-series.ts';
import { StoreLatency } from './store-latency.ts';

const INTERVAL_MS = 1_000;

/** Gathers once a second what the status tells: requests by outcome, the latency of the store, and incidents. */
export class Gatherer {
  readonly startedAtMs: number;
  readonly service = new ServiceSeries();
  readonly latency = new StoreLatency();
  readonly incidents: Incidents;
  readonly #options: AdminOptions;
  readonly #durations: () => DurationTotals;
  readonly #listeners: ((nowMs: number) => void)[] = [];
  readonly #stop: () => void;

  /** @param durations  those of all calls so far */
  constructor(options: AdminOptions, durations: () => DurationTotals, incidents: Incidents) {
    const { clock, statistics } = options;
    this.#options = options;
    this.#durations = durations;
    this.incidents = incidents;
    this.startedAtMs = clock();
    incidents.begin(countSoFar(statistics), this.startedAtMs);
    this.service.begin(statistics);
    this.#stop = every(INTERVAL_MS, () => this.#tick());
  }

  /** Calls the listener each second, after what is gathered here. */
  onSecond(listener: (nowMs: number) => void): void {
    this.#listeners.push(listener);
  }

  close(): void {
    this.#stop();
  }

  #tick(): void {
    const { statistics, figures, clock, store, openCircuits, restarts, sourced } = this.#options;
    const nowMs = clock();
    const state = store();
    this.latency.gather(statistics.storeCalls, state?.isUp ? state.latencyMs : undefined);
    const lags = { lagMs: figures().latenessMs, store: this.latency.minute() };
    this.service.gather(statistics, this.#durations(), lags);
    this.incidents.gather({
      nowMs,
      outcomes: this.service.last,
      ...countSoFar(statistics),
      isStoreAway: state?.isUp === false || Math.max(0, ...openCircuits().values()) > 0,
      lastSuccessAtMs: state?.lastSuccessAtMs,
      isStoreSlow: this.latency.isSlowerThan(SLOW_STORE_MS),
      restarts: restarts(),
      hasNewestRules: sourced.inForce()?.isNewest ?? true,
    });
    for (const listener of this.#listeners) listener(nowMs);
  }
}

const countSoFar = (statistics: Statistics): Counted => ({
  totals: countOutcomes(statistics),
  undecidedBy: { ...statistics.undecided },
});
