import type { Pool } from '../../../src/engine/rules/match/strategy.ts';
import {
  resumeMs,
  type Share,
  type ShareReport,
  type ShareState,
  type ShareTerms,
  stepShares,
} from '../../../src/parts/quotas/shares.ts';

/** A proxy: reports at an interval, and uses the last share that it received until that expires. */
interface Proxy {
  readonly id: string;
  readonly isNamed: boolean;
  /** Requests per second. */
  demand: number;
  /** Undefined while it does not run. */
  connection: Connection | undefined;
  connections: number;
  nextReportMs: number;
  lastReportMs: number | undefined;
  share: (Share & { readonly untilMs: number }) | undefined;
}

/** The service's state of a connection. */
interface Connection {
  isOpen: boolean;
  sent: number;
  sentAtMs: number;
  /** Whether the proxy had reported before its first report on this connection. */
  isResumed: boolean;
  knownSinceMs: number | undefined;
}

export interface SimulationOptions {
  readonly pool: Pool;
  readonly terms: ShareTerms;
  readonly reportMs: number;
  /** Returns a number from 0 to 1. */
  readonly random: () => number;
  /** Each message is in transit for up to this fraction of `transitMs`. */
  readonly delayPart?: number;
  /** The fraction of reports that are handled twice, 0 to 1. */
  readonly duplicated?: number;
  /** The fraction of shares whose connection breaks before they arrive, 0 to 1. */
  readonly lost?: number;
}

/** Proxies and a service on a simulated clock, which tracks the shares that are actually in use. */
export class Simulation {
  readonly #options: SimulationOptions;
  readonly #proxies = new Map<string, Proxy>();
  readonly #events: { readonly atMs: number; readonly run: () => void }[] = [];
  #state: ShareState | undefined;
  nowMs = 1_700_000_000_000;
  /** The largest sums of shares ever in use. */
  mostUnits = 0;
  mostBurst = 0;
  sharesSent = 0;
  /** The time that running proxies spent without a valid share, and so without a limit, summed over proxies. */
  unlimitedMs = 0;

  constructor(options: SimulationOptions) {
    this.#options = options;
  }

  /** @param isNamed  the proxy keeps its name across connections */
  start(id: string, demand: number, isNamed = true): void {
    const { random, reportMs } = this.#options;
    const connection = { isOpen: true, sent: 0, sentAtMs: 0, isResumed: false, knownSinceMs: undefined };
    const earlier = this.#proxies.get(id);
    if (earlier?.connection) return;
    const nextReportMs = this.nowMs + Math.floor(random() * reportMs);
    const connections = (earlier?.connections ?? 0) + 1;
    this.#proxies.set(id, {
      ...{ id, isNamed, demand, connection, connections, nextReportMs },
      ...{ lastReportMs: undefined, share: undefined },
    });
  }

  /** Ends the process: it uses nothing any more, and returns nothing. */
  kill(id: string): void {
    const proxy = this.#proxies.get(id);
    if (!proxy?.connection) return;
    proxy.connection.isOpen = false;
    proxy.connection = undefined;
    proxy.share = undefined;
  }

  setDemand(id: string, demand: number): void {
    const proxy = this.#proxies.get(id);
    if (proxy) proxy.demand = demand;
  }

  /** Breaks the connection with all messages in transit; the proxy reconnects and keeps its share. */
  disconnect(id: string): void {
    const proxy = this.#proxies.get(id);
    if (!proxy?.connection) return;
    proxy.connection.isOpen = false;
    proxy.connection = {
      ...{ isOpen: true, sent: 0, sentAtMs: 0 },
      ...{ isResumed: proxy.lastReportMs !== undefined, knownSinceMs: undefined },
    };
    proxy.connections++;
  }

  /** Kills the service: every connection breaks, but the state is in a store. */
  restart(): void {
    for (const id of this.#proxies.keys()) this.disconnect(id);
  }

  /** Restarts the service, which loses its shares. */
  loseStore(): void {
    this.#state = undefined;
    this.restart();
  }

  /** The tokens per fill that a proxy may currently use. */
  unitsOf(id: string): number {
    const share = this.#proxies.get(id)?.share;
    return share && share.untilMs > this.nowMs ? share.units : 0;
  }

  run(durationMs: number, tickMs = 100): void {
    const endMs = this.nowMs + durationMs;
    for (; this.nowMs < endMs; this.nowMs += tickMs) {
      for (const proxy of this.#proxies.values()) this.#report(proxy);
      const due = this.#events.filter(({ atMs }) => atMs <= this.nowMs);
      for (const event of due) {
        this.#events.splice(this.#events.indexOf(event), 1);
        event.run();
      }
      this.#measure(tickMs);
    }
  }

  #measure(tickMs: number): void {
    let [units, burst] = [0, 0];
    for (const { share, connection } of this.#proxies.values()) {
      if (connection && share && share.untilMs <= this.nowMs) this.unlimitedMs += tickMs;
      if (!share || share.untilMs <= this.nowMs || share.units === 0) continue;
      units += share.units;
      burst += share.burst;
    }
    this.mostUnits = Math.max(this.mostUnits, units);
    this.mostBurst = Math.max(this.mostBurst, burst);
  }

  #report(proxy: Proxy): void {
    const { connection } = proxy;
    if (!connection || proxy.nextReportMs > this.nowMs) return;
    const elapsedMs = proxy.lastReportMs === undefined ? 0 : this.nowMs - proxy.lastReportMs;
    const requests = elapsedMs === 0 ? 1 : Math.round((proxy.demand * elapsedMs) / 1_000);
    proxy.lastReportMs = this.nowMs;
    proxy.nextReportMs = this.nowMs + this.#options.reportMs;
    const holder = proxy.isNamed ? proxy.id : `${proxy.id}/${proxy.connections}`;
    const handle = (): void => {
      if (!connection.isOpen) return;
      const { terms } = this.#options;
      connection.knownSinceMs ??= this.nowMs;
      const isConfirmed = connection.sent > 0 && this.nowMs - connection.sentAtMs >= terms.transitMs;
      const { sent, knownSinceMs } = connection;
      const isRecent = this.nowMs - knownSinceMs < (proxy.isNamed ? resumeMs(terms) : terms.ttlMs);
      const isResumed = connection.isResumed && sent === 0 && elapsedMs > 0 && isRecent;
      this.#handle(proxy, connection, {
        ...{ holder, requests, elapsedMs, sent, isConfirmed, isResumed, leaves: false },
      });
    };
    this.#later(handle);
    if (this.#options.random() < (this.#options.duplicated ?? 0)) this.#later(handle);
  }

  #handle(proxy: Proxy, connection: Connection, report: ShareReport): void {
    const { pool, terms } = this.#options;
    const { state, share } = stepShares(this.#state, report, { pool, terms, nowMs: this.nowMs });
    this.#state = state;
    if (!share) return;
    this.sharesSent++;
    connection.sent = share.number;
    connection.sentAtMs = this.nowMs;
    const isLost = this.#options.random() < (this.#options.lost ?? 0);
    this.#later(() => {
      if (!connection.isOpen) return;
      if (isLost) this.disconnect(proxy.id);
      else proxy.share = { ...share, untilMs: this.nowMs + terms.ttlMs };
    });
  }

  /** Messages of a connection arrive in order, since each delay is at most half of the transit time. */
  #later(run: () => void): void {
    const { random, terms, delayPart = 0.1 } = this.#options;
    this.#events.push({ atMs: this.nowMs + Math.floor(random() * (terms.transitMs / 2) * delayPart), run });
  }
}
