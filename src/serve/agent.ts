import { AdminAgent, type AgentOptions } from '../admin/agent.ts';
import type { Clock } from '../clock.ts';
import type { Extras } from '../rls/service.ts';
import type { Settings } from '../settings.ts';
import type { Basis } from './basis.ts';

/** What a process that answers requests keeps for operators. */
export function openAgent(
  settings: Settings,
  { counters, rules }: Pick<Basis, 'counters' | 'rules'>,
  decider: AgentOptions['decider'],
  extras: Extras,
  clock: Clock,
): AdminAgent {
  return new AdminAgent({
    decider,
    extras,
    packed: rules.book.packed,
    source: rules.description,
    ledger: counters.ledger,
    topKeysBytes: settings.TOP_KEYS_BYTES,
    refusals: settings.EXPLAIN_SAMPLE,
    clock,
    every(intervalMs, run) {
      const timer = setInterval(run, intervalMs).unref();
      return () => clearInterval(timer);
    },
  });
}
