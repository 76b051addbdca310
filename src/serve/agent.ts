import { AdminAgent, type AgentOptions } from '../admin/agent.ts';
import type { Clock } from '../clock.ts';
import type { Extras } from '../rls/service.ts';
import type { Settings } from '../settings.ts';
import type { Core } from './core.ts';

/** Opens the part of an answering process that serves operators. */
export function openAgent(
  settings: Settings,
  { counters, rules }: Pick<Core, 'counters' | 'rules'>,
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
