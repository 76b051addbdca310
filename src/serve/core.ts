import type { Clock } from '../clock.ts';
import type { Logger } from '../observe/log.ts';
import type { Readiness } from '../rls/health.ts';
import type { StoreTraits } from '../rules/fit.ts';
import type { Settings } from '../settings.ts';
import { createParts, type Part } from './parts.ts';
import { createReadiness } from './readiness.ts';
import type { OpenRules } from './rules.ts';
import { type OpenStore, openStore } from './store.ts';
import { traitsOf } from './traits.ts';

/** The counters and the rules. */
export interface Core extends Part {
  readonly counters: OpenStore;
  readonly rules: OpenRules;
  /** Whether requests can be decided. */
  readonly readiness: () => Readiness;
}

export interface CoreOptions {
  readonly clock: Clock;
  /** Opens the rules: from their source, or from the primary process. */
  readonly openRules: (store: StoreTraits) => Promise<OpenRules>;
  /** Whether the service is shutting down. */
  readonly isClosing: () => boolean;
}

/**
 * Opens the counters and the rules.
 *
 * @throws CannotStart if rules at a plain path are invalid, or the settings of the store or the control plane cannot be used
 */
export async function openCore(
  settings: Settings,
  { clock, openRules, isClosing }: CoreOptions,
  log: Logger,
): Promise<Core> {
  const parts = createParts();
  try {
    const counters = await openStore(settings, clock, log);
    parts.add(counters.ledger);
    if (counters.watch) parts.add(counters.watch);
    parts.add(counters.lateness);
    const rules = await openRules(traitsOf(settings));
    parts.add(rules.book);
    const readiness = createReadiness(settings, rules.book, counters, clock, isClosing);
    return { counters, rules, readiness, close: parts.close };
  } catch (error) {
    await parts.close();
    throw error;
  }
}
