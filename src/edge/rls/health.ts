import { type Intermittent, intermittent } from '../../base/intermittent.ts';

/** Whether the service can decide requests. */
export interface Readiness {
  readonly ready: boolean;
  /** Why it is not ready; empty if it is. */
  readonly reasons: readonly string[];
  /** Further facts for operators, ready or not. */
  readonly notes?: readonly string[];
}

/** A status of `grpc.health.v1.HealthCheckResponse`. */
type ServingStatus = 'SERVING' | 'NOT_SERVING';
export type WatchedStatus = ServingStatus | 'SERVICE_UNKNOWN';

/** How often readiness is polled: the longest delay of a Watch. */
const POLL_INTERVAL_MS = 200;

/** The names with a status, as in envoyproxy/ratelimit: the service and the process. */
const SERVICE = 'ratelimit';
const PROCESS = '';

/**
 * The statuses that `grpc.health.v1.Health` reports: `ratelimit` is SERVING while the service is ready, the empty name
 * while the process runs. Other names are never served and not kept, so the cost of a watch does not depend on its
 * name.
 */
export class Health {
  readonly #readiness: () => Readiness;
  /** Runs while there are watches; a single check reads the current state. */
  readonly #poll: Intermittent;
  readonly #listeners = new Set<(status: ServingStatus) => void>();
  #status: ServingStatus;
  #openWatches = 0;
  #isClosed = false;

  constructor(readiness: () => Readiness) {
    this.#readiness = readiness;
    this.#status = this.#current();
    this.#poll = intermittent(POLL_INTERVAL_MS, () => {
      this.refresh();
      return this.#listeners.size > 0;
    });
  }

  /** Number of watches that have not been stopped. */
  get openWatches(): number {
    return this.#openWatches;
  }

  /** The current status of a service; undefined: unknown service. */
  status(service: string): ServingStatus | undefined {
    if (service === PROCESS) return 'SERVING';
    if (service !== SERVICE) return undefined;
    this.refresh();
    return this.#status;
  }

  /** The current statuses by service name. */
  statuses(): ReadonlyMap<string, ServingStatus> {
    this.refresh();
    return new Map([
      [PROCESS, 'SERVING'],
      [SERVICE, this.#status],
    ]);
  }

  /**
   * Calls the listener with a service's current status before it returns, and with each change.
   *
   * @returns stops the watch; idempotent
   */
  watch(service: string, listener: (status: WatchedStatus) => void): () => void {
    const status = this.status(service) ?? 'SERVICE_UNKNOWN';
    if (service === SERVICE) {
      this.#listeners.add(listener);
      this.#poll.wake();
    }
    this.#openWatches++;
    let isOpen = true;
    listener(status);
    return () => {
      if (isOpen) this.#openWatches--;
      isOpen = false;
      this.#listeners.delete(listener);
    };
  }

  /** Polls the readiness, and notifies watchers if it has changed. */
  refresh(): void {
    if (!this.#isClosed) this.#set(this.#current());
  }

  /** Sets the service to NOT_SERVING permanently. */
  close(): void {
    this.#isClosed = true;
    this.#poll.close();
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
