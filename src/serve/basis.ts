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

/** What decisions are made from. */
export interface Basis extends Part {
  readonly counters: OpenStore;
  readonly rules: OpenRules;
  /** Whether decisions can be made. */
  readonly readiness: () => Readiness;
}

export interface BasisOptions {
  readonly clock: Clock;
  /** Opens the rules: from where the settings say, or from the primary process. */
  readonly openRules: (store: StoreTraits) => Promise<OpenRules>;
  /** Whether the service is shutting down. */
  readonly isClosing: () => boolean;
}

/**
 * Opens the counters and the rules.
 *
 * @throws CannotStart  wrong rules at a plain path; counters or a control plane that cannot be used as they are set
 */
export async function openBasis(
  settings: Settings,
  { clock, openRules, isClosing }: BasisOptions,
  log: Logger,
): Promise<Basis> {
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
