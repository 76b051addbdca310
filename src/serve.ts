import { banner } from './banner.ts';
import type { Clock } from './clock.ts';
import { createLogger } from './observe/log.ts';
import { referenceGauges } from './observe/reference-names.ts';
import { createStatistics } from './observe/stats.ts';
import type { StoreTraits } from './rules/fit.ts';
import { createAdminPages } from './serve/admin.ts';
import { openBasis } from './serve/basis.ts';
import type { CannotStart } from './serve/cannot-start.ts';
import { createSingle } from './serve/crew.ts';
import { createParts } from './serve/parts.ts';
import { openRules, tellLoads } from './serve/rules.ts';
import { checkSpend, whenNeverReached } from './serve/store.ts';
import { openView } from './serve/view.ts';
import { createWorkers } from './serve/workers/workers.ts';
import type { Settings } from './settings.ts';

/** A running service. */
export interface Service {
  /** What to print at the start. */
  readonly banner: string;
  /** Resolves, if ever, with the reason why the service can never do its work. */
  readonly failed: Promise<CannotStart>;
  /** Answers what is under way, then stops. */
  close(): Promise<void>;
}

/**
 * Puts the service together: counters, rules, statistics, then the servers; `close` takes it apart in reverse.
 *
 * @throws CannotStart  wrong rules at a plain path, an address that cannot be bound, certificates that cannot be used
 */
export async function serve(settings: Settings, clock: Clock, version: string): Promise<Service> {
  const { WORKERS: workers } = settings;
  const log = createLogger({ level: settings.LOG_LEVEL, format: settings.LOG_FORMAT });
  for (const warning of settings.warnings) log.warn(warning);
  const parts = createParts();
  let isClosing = false;
  const close = (): Promise<void> => {
    isClosing = true;
    return parts.close();
  };

  try {
    const statistics = createStatistics(settings.NEAR_LIMIT_RATIO, settings.STATISTICS_MAX_BYTES);
    const openOwnRules = (traits: StoreTraits) => openRules(settings, traits, tellLoads(statistics, log), log);
    const options = { clock, openRules: openOwnRules, isClosing: () => isClosing };
    const basis = parts.add(await openBasis(settings, options, log));
    const { counters, rules } = basis;
    checkSpend(settings, counters, log);
    const crew =
      workers > 1
        ? createWorkers(settings, rules.book, statistics, log)
        : createSingle(settings, basis, statistics, clock, log);
    const { circuits: openCircuits, leased, refresh } = crew;
    const gauges = () => referenceGauges(crew.cache());
    const admin = parts.add(createAdminPages(settings, basis, { ask: crew.ask, clock, version }, log));
    const { debug, called } = parts.add(
      await openView(settings, basis, { statistics, gauges, openCircuits, leased, refresh }, admin, log),
    );
    const { grpc, http } = parts.add(await crew.open(called));
    const from = { rulesFrom: rules.description, rules: rules.book.rules(), counters: counters.description };
    return {
      banner: banner({ version, ...from, workers, grpc, http, debug }),
      failed: whenNeverReached(settings.REDIS_STARTUP_MAX_ELAPSED_TIME, counters),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
