import { type Clock, type Intermittent, intermittent } from '../../base/clock.ts';
import type { BackendHealth } from '../../engine/backends/backend.ts';
import type { StoreWatch } from '../../engine/backends/store-watch.ts';
import type { OpenBackends } from '../../engine/open/open-backends.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';

/** Whether the service can decide requests. */
export interface Readiness {
  readonly ready: boolean;
  /** Reasons why it is not ready; empty if it is. */
  readonly reasons: readonly string[];
  /** Further facts for operators, ready or not. */
  readonly notes?: readonly string[];
}

/** A status of `grpc.health.v1.HealthCheckResponse`. */
type ServingStatus = 'SERVING' | 'NOT_SERVING';
export type WatchedStatus = ServingStatus | 'SERVICE_UNKNOWN';

/** Interval at which readiness is polled, and so the maximum delay of a Watch. */
const POLL_INTERVAL_MS = 200;

/** The names with a status, as in envoyproxy/ratelimit: the service and the process. */
const SERVICE = 'ratelimit';
const PROCESS = '';

/**
 * The statuses that `grpc.health.v1.Health` reports. `ratelimit` is SERVING while the service is ready, the empty name
 * while the process runs. Other names are never served and not kept, so the cost of a watch does not depend on its
 * name.
 */
export class Health {
  readonly #readiness: () => Readiness;
  /** Timer that runs while there are watches; a single check reads the current state. */
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

  /** Current status of a service; undefined for an unknown one. */
  status(service: string): ServingStatus | undefined {
    if (service === PROCESS) return 'SERVING';
    if (service !== SERVICE) return undefined;
    this.refresh();
    return this.#status;
  }

  /** Current statuses by service name. */
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
   * @returns an idempotent function that stops the watch
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

/** The conditions for accepting requests. */
interface ReadinessTerms {
  readonly requiresRules: boolean;
  /** Whether the rules must have a domain. */
  readonly requiresDomain: boolean;
  /** Whether the store must be reachable at all times, not only once. */
  readonly requiresStore: boolean;
}

interface ReadinessSources {
  readonly rules: () => RuleTree | undefined;
  readonly store: {
    readonly ledger: { health(): BackendHealth };
    readonly circuits?: OpenBackends['circuits'];
    readonly watch: Pick<StoreWatch, 'state'> | undefined;
  };
  readonly clock: Clock;
}

/** Interval at which the first contact with the store is polled. */
const READY_POLL_MS = 50;

/**
 * Whether requests can be decided, because all ports are open, rules are loaded and the store has been reached. Unless
 * `requiresStore` is set, once is enough, so that an outage of Redis does not take the whole fleet out of service.
 */
export class ReadinessCheck {
  readonly #required: ReadinessTerms;
  readonly #sources: ReadinessSources;
  readonly #poll = setInterval(() => this.#checkStore(), READY_POLL_MS).unref(); // also without health checks
  #arePortsOpen = false;
  #wasReached = false;
  #isClosing = false;

  constructor(required: ReadinessTerms, sources: ReadinessSources) {
    this.#required = required;
    this.#sources = sources;
  }

  state(): Readiness {
    const { requiresRules, requiresDomain, requiresStore } = this.#required;
    const rules = this.#sources.rules();
    const store = this.#checkStore();
    const isReached = requiresStore ? store.ready : this.#wasReached;
    const isEmpty = (rules?.domains.size ?? 0) === 0;
    const reasons = [
      ...(this.#isClosing ? ['shutting down'] : []),
      ...(this.#arePortsOpen ? [] : ['not all ports are open']),
      ...(rules || !requiresRules ? [] : ['no rate limit configuration loaded']),
      ...(rules && isEmpty && requiresDomain ? ['the rules have no domain'] : []),
      ...(isReached || store.ready ? [] : [`store unavailable: ${store.reason}`]),
    ];
    return { ready: reasons.length === 0, reasons, notes: notesOn(this.#sources) };
  }

  /** To be called when the ports of callers and of operators are open. */
  portsOpened(): void {
    this.#arePortsOpen = true;
  }

  /** Makes the service permanently not ready, for shutting down. */
  close(): void {
    this.#isClosing = true;
    clearInterval(this.#poll);
  }

  #checkStore() {
    const health = this.#sources.store.ledger.health();
    this.#wasReached ||= health.ready;
    if (this.#wasReached) clearInterval(this.#poll);
    return health;
  }
}

/** `store: up`, `last success: 0.4 s ago`, then the circuit to each node. */
function notesOn({ store, clock }: ReadinessSources): readonly string[] {
  const circuits = Array.from(store.circuits?.() ?? [], ([node, circuit]) => `circuit to ${node}: ${circuit}`);
  if (!store.watch) return circuits;
  const { isUp, reason, lastSuccessAtMs } = store.watch.state();
  const last = lastSuccessAtMs === undefined ? 'never' : `${((clock() - lastSuccessAtMs) / 1_000).toFixed(1)} s ago`;
  return [`store: ${isUp ? 'up' : `down: ${reason}`}`, `last success: ${last}`, ...circuits];
}
