import type { Clock } from '../../base/clock.ts';
import type { BackendHealth } from '../../engine/backends/backend.ts';
import type { Breakers } from '../../engine/backends/breaker.ts';
import type { StoreWatch } from '../../engine/backends/store-watch.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { Readiness } from './health.ts';

/** The conditions for accepting requests. */
interface ReadinessTerms {
  readonly requiresRules: boolean;
  /** The rules must have a domain. */
  readonly requiresDomain: boolean;
  /** The store must be reachable at all times, not only once. */
  readonly requiresStore: boolean;
}

interface ReadinessSources {
  readonly rules: () => RuleTree | undefined;
  readonly store: {
    readonly ledger: { health(): BackendHealth };
    readonly breakers: Pick<Breakers, 'states'>;
    readonly watch: Pick<StoreWatch, 'state'> | undefined;
  };
  readonly clock: Clock;
}

/** How often the first contact with the store is polled. */
const POLL_INTERVAL_MS = 50;

/**
 * Whether requests can be decided: rules must be loaded, and the store must have been reached. Unless `requiresStore`
 * is set, once is enough, so that an outage of Redis does not take the whole fleet out of service.
 */
export class ReadinessCheck {
  readonly #required: ReadinessTerms;
  readonly #sources: ReadinessSources;
  readonly #poll = setInterval(() => this.#checkStore(), POLL_INTERVAL_MS).unref(); // also without health checks
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
      ...(rules || !requiresRules ? [] : ['no rate limit configuration loaded']),
      ...(rules && isEmpty && requiresDomain ? ['the rules have no domain'] : []),
      ...(isReached || store.ready ? [] : [`counters cannot be reached: ${store.reason}`]),
    ];
    return { ready: reasons.length === 0, reasons, notes: notesOn(this.#sources) };
  }

  /** The service is shutting down: it is not ready any more. */
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
function notesOn({ store: { breakers, watch }, clock }: ReadinessSources): readonly string[] {
  const circuits = Array.from(breakers.states(), ([node, circuit]) => `circuit to ${node}: ${circuit}`);
  if (!watch) return circuits;
  const { isUp, reason, lastSuccessAtMs } = watch.state();
  const last = lastSuccessAtMs === undefined ? 'never' : `${((clock() - lastSuccessAtMs) / 1_000).toFixed(1)} s ago`;
  return [`store: ${isUp ? 'up' : `down: ${reason}`}`, `last success: ${last}`, ...circuits];
}
