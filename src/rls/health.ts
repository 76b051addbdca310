/** Whether the service can decide requests, and if not, why. */
export interface Readiness {
  readonly ready: boolean;
  /** Why not, one text a reason. Empty when ready. */
  readonly reasons: readonly string[];
  /** What operators should know besides, ready or not. */
  readonly notes?: readonly string[];
}

/** A status as `grpc.health.v1.HealthCheckResponse` names it. */
export type ServingStatus = 'SERVING' | 'NOT_SERVING';
export type WatchedStatus = ServingStatus | 'SERVICE_UNKNOWN';

/** How often readiness is polled: the longest that a Watch lags behind. */
const POLL_INTERVAL_MS = 200;

/** The names that have a status, as in envoyproxy/ratelimit: the service, and the process. */
const SERVICE = 'ratelimit';
const PROCESS = '';

/**
 * The statuses that `grpc.health.v1.Health` reports: `ratelimit` is SERVING while the service is ready, the empty name as long as the process
 * answers. Every other name is unknown for ever, so nothing is kept of it: a watch costs the same whatever its name.
 */
export class Health {
  readonly #readiness: () => Readiness;
  readonly #poll: NodeJS.Timeout;
  readonly #listeners = new Set<(status: ServingStatus) => void>();
  #status: ServingStatus;
  #openWatches = 0;
  #isClosed = false;

  constructor(readiness: () => Readiness) {
    this.#readiness = readiness;
    this.#status = this.#current();
    this.#poll = setInterval(() => this.refresh(), POLL_INTERVAL_MS).unref();
  }

  /** Watches that have not been stopped, of any name. */
  get openWatches(): number {
    return this.#openWatches;
  }

  /** The status of a service now; undefined: there is no service of that name. */
  status(service: string): ServingStatus | undefined {
    if (service === PROCESS) return 'SERVING';
    if (service !== SERVICE) return undefined;
    this.refresh();
    return this.#status;
  }

  /** The statuses of all services now, by name. */
  statuses(): ReadonlyMap<string, ServingStatus> {
    this.refresh();
    return new Map([
      [PROCESS, 'SERVING'],
      [SERVICE, this.#status],
    ]);
  }

  /**
   * Calls the listener with a service's status before it returns, and with each later one when it changes.
   *
   * @returns stops that; may be called several times
   */
  watch(service: string, listener: (status: WatchedStatus) => void): () => void {
    const status = this.status(service) ?? 'SERVICE_UNKNOWN';
    if (service === SERVICE) this.#listeners.add(listener);
    this.#openWatches++;
    let isOpen = true;
    listener(status);
    return () => {
      if (isOpen) this.#openWatches--;
      isOpen = false;
      this.#listeners.delete(listener);
    };
  }

  /** Takes over the service's readiness of this moment, and notifies watchers if it has changed. */
  refresh(): void {
    if (!this.#isClosed) this.#set(this.#current());
  }

  /** Sets the service NOT_SERVING for good. */
  close(): void {
    this.#isClosed = true;
    clearInterval(this.#poll);
    this.#set('NOT_SERVING');
  }

  #current(): ServingStatus {
    return this.#readiness().ready ? 'SERVING' : 'NOT_SERVING';
  }

  #set(status: ServingStatus): void {
    if (status === this.#status) return;
    this.#status = status;
    for (const listener of this.#listeners) listener(status);
  }
}

export const createHealth = (readiness: () => Readiness): Health => new Health(readiness);
