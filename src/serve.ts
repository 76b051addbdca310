import { banner } from './banner.ts';
import type { Clock } from './clock.ts';
import { createLogger } from './observe/log.ts';
import { referenceGauges } from './observe/reference-names.ts';
import type { ServiceGauges } from './observe/service-gauges.ts';
import { createStatistics } from './observe/stats.ts';
import type { StoreTraits } from './rules/fit.ts';
import { openBasis } from './serve/basis.ts';
import { CannotStart } from './serve/cannot-start.ts';
import { createSingle } from './serve/crew.ts';
import { createParts } from './serve/parts.ts';
import { logLoads, openRules } from './serve/rules.ts';
import { whenNeverReached } from './serve/store.ts';
import { spendProblemOf } from './serve/traits.ts';
import { openView } from './serve/view.ts';
import { createWorkers } from './serve/workers/workers.ts';
import type { Settings } from './settings.ts';

/** A running service. */
export interface Service {
  /** What to print at the start. */
  readonly banner: string;
  /** Resolves, if ever, with the reason why the service can never do its work. */
  readonly failed: Promise<CannotStart>;
  /**
   * Answers what is under way, then stops.
   *
   * @param reason  for the log: the signal, say
   */
  close(reason?: string): Promise<void>;
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
  const spendProblem = spendProblemOf(settings);
  if (spendProblem?.isFatal) throw new CannotStart(spendProblem.message);
  if (spendProblem) log.warn(spendProblem.message);
  const parts = createParts();
  let isClosing = false;
  const close = async (reason?: string): Promise<void> => {
    if (reason !== undefined && !isClosing) log.info(`shutting down: ${reason}`);
    isClosing = true;
    await parts.close();
  };

  try {
    const statistics = createStatistics(settings.NEAR_LIMIT_RATIO, settings.STATISTICS_MAX_BYTES);
    const openOwnRules = (traits: StoreTraits) => openRules(settings, traits, logLoads(statistics, log), clock, log);
    const options = { clock, openRules: openOwnRules, isClosing: () => isClosing };
    const basis = parts.add(await openBasis(settings, options, log));
    const { counters, rules } = basis;
    const crew =
      workers > 1
        ? createWorkers(settings, rules.book, statistics, log)
        : createSingle(settings, basis, statistics, clock, log);
    const { circuits: openCircuits, leased, refresh } = crew;
    const serviceGauges: ServiceGauges = {
      rules: rules.book.rules,
      lastLoad: rules.inForce,
      load: crew.load,
      store: () => counters.watch?.state(),
      memory: () => counters.memory?.held(),
      restarts: crew.restarts,
      version,
    };
    const gauges = () => referenceGauges(crew.cache());
    const { debug, called } = parts.add(
      await openView(settings, basis, { statistics, gauges, openCircuits, leased, refresh }, serviceGauges, log),
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
