import type { Breakers } from '../backends/breaker.ts';
import type { Clock } from '../clock.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Readiness } from '../rls/health.ts';
import type { RuleBook } from '../rules/book.ts';
import type { Settings } from '../settings.ts';
import type { StoreWatch } from './store-watch.ts';

type ReadinessSettings = Pick<
  Settings,
  | 'FORCE_START_WITHOUT_INITIAL_CONFIG'
  | 'HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED'
  | 'REDIS_HEALTH_CHECK_ACTIVE_CONNECTION'
>;

/** The state of the counters. */
export interface ReadinessSources {
  readonly ledger: Pick<Ledger, 'health'>;
  readonly breakers: Pick<Breakers, 'states'>;
  readonly watch: Pick<StoreWatch, 'state'> | undefined;
}

/** How often the first contact with the store is polled. */
const POLL_INTERVAL_MS = 50;

/**
 * Creates the readiness check: rules must be loaded, and the store must have been reached. Without
 * REDIS_HEALTH_CHECK_ACTIVE_CONNECTION once is enough, so that an outage of Redis does not take the whole fleet out of service.
 *
 * @param isClosing  whether the service is shutting down
 */
export function createReadiness(
  settings: ReadinessSettings,
  book: Pick<RuleBook, 'rules'>,
  sources: ReadinessSources,
  clock: Clock,
  isClosing: () => boolean,
): () => Readiness {
  const { ledger } = sources;
  let wasReached = false;
  const poll = setInterval(() => {
    wasReached ||= ledger.health().ready; // also without health checks
    if (wasReached || isClosing()) clearInterval(poll);
  }, POLL_INTERVAL_MS).unref();
  return () => {
    const rules = book.rules();
    const state = ledger.health();
    wasReached ||= state.ready;
    const isReached = settings.REDIS_HEALTH_CHECK_ACTIVE_CONNECTION ? state.ready : wasReached;
    const isEmpty = (rules?.domains.size ?? 0) === 0;
    const reasons = [
      ...(isClosing() ? ['shutting down'] : []),
      ...(rules || settings.FORCE_START_WITHOUT_INITIAL_CONFIG ? [] : ['no rate limit configuration loaded']),
      ...(rules && isEmpty && settings.HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED ? ['the rules have no domain'] : []),
      ...(isReached || state.ready ? [] : [`counters cannot be reached: ${state.reason}`]),
    ];
    return { ready: reasons.length === 0, reasons, notes: notesOn(sources, clock()) };
  };
}

/** `store: up`, `last success: 0.4 s ago`, then the circuit to each node. */
function notesOn({ breakers, watch }: ReadinessSources, nowMs: number): readonly string[] {
  const circuits = Array.from(breakers.states(), ([node, circuit]) => `circuit to ${node}: ${circuit}`);
  if (!watch) return circuits;
  const { isUp, reason, lastSuccessAtMs } = watch.state();
  const last = lastSuccessAtMs === undefined ? 'never' : `${((nowMs - lastSuccessAtMs) / 1_000).toFixed(1)} s ago`;
  return [`store: ${isUp ? 'up' : `down: ${reason}`}`, `last success: ${last}`, ...circuits];
}
