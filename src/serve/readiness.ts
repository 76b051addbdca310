import type { Breakers } from '../backends/breaker.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Readiness } from '../rls/health.ts';
import type { RuleBook } from '../rules/book.ts';
import type { Settings } from '../settings.ts';

type Wanted = Pick<
  Settings,
  | 'FORCE_START_WITHOUT_INITIAL_CONFIG'
  | 'HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED'
  | 'REDIS_HEALTH_CHECK_ACTIVE_CONNECTION'
>;

/**
 * Says whether requests can be decided: rules are loaded, and the counters have been reached; unless
 * REDIS_HEALTH_CHECK_ACTIVE_CONNECTION, once is enough, so that an outage of Redis does not take the whole fleet out of service.
 *
 * @param isClosing  whether the service is shutting down
 */
export function createReadiness(
  settings: Wanted,
  book: Pick<RuleBook, 'rules'>,
  { ledger, breakers }: { readonly ledger: Pick<Ledger, 'health'>; readonly breakers: Pick<Breakers, 'states'> },
  isClosing: () => boolean,
): () => Readiness {
  let wasReached = false;
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
    const notes = Array.from(breakers.states(), ([node, circuit]) => `circuit to ${node}: ${circuit}`);
    return { ready: reasons.length === 0, reasons, notes };
  };
}
