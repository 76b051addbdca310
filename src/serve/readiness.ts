import type { Breakers } from '../backends/breaker.ts';
import type { Clock } from '../clock.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Readiness } from '../rls/health.ts';
import type { RuleBook } from '../rules/book.ts';
import type { Settings } from '../settings.ts';
import type { StoreWatch } from './store-watch.ts';

type Wanted = Pick<
  Settings,
  | 'FORCE_START_WITHOUT_INITIAL_CONFIG'
  | 'HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED'
  | 'REDIS_HEALTH_CHECK_ACTIVE_CONNECTION'
>;

/** What the counters say of themselves. */
export interface ReadinessSources {
  readonly ledger: Pick<Ledger, 'health'>;
  readonly breakers: Pick<Breakers, 'states'>;
  readonly watch: Pick<StoreWatch, 'state'> | undefined;
}

/** How often it is checked whether the counters have been reached for the first time. */
const POLL_INTERVAL_MS = 50;

/**
 * Says whether requests can be decided: rules are loaded, and the counters have been reached; unless
 * REDIS_HEALTH_CHECK_ACTIVE_CONNECTION, once is enough, so that an outage of Redis does not take the whole fleet out of service.
 *
 * @param isClosing  whether the service is shutting down
 */
export function createReadiness(
  settings: Wanted,
  book: Pick<RuleBook, 'rules'>,
  sources: ReadinessSources,
  clock: Clock,
  isClosing: () => boolean,
): () => Readiness {
  const { ledger } = sources;
  let wasReached = false;
  const poll = setInterval(() => {
    wasReached ||= ledger.health().ready; // whether or not anyone asks
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
