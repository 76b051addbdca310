import { banner } from './banner.ts';
import type { Clock } from './clock.ts';
import { createLogger } from './observe/log.ts';
import { createMetrics } from './observe/prometheus.ts';
import { referenceGauges } from './observe/reference-names.ts';
import type { ServiceGauges } from './observe/service-gauges.ts';
import { createStatistics } from './observe/stats.ts';
import type { StoreTraits } from './rules/fit.ts';
import { createAdminPages } from './serve/admin.ts';
import { CannotStart } from './serve/cannot-start.ts';
import { consoleAddress, openConsole } from './serve/console.ts';
import { openCore } from './serve/core.ts';
import { openOpsServer } from './serve/ops-server.ts';
import { createParts } from './serve/parts.ts';
import { createLocalResponder } from './serve/responders.ts';
import { logRuleLoads, openRules } from './serve/rules.ts';
import { whenNeverReached } from './serve/store.ts';
import { spendProblemOf } from './serve/traits.ts';
import { createWorkers } from './serve/workers/workers.ts';
import type { Settings } from './settings.ts';

/** A running service. */
export interface Service {
  /** Printed at the start. */
  readonly banner: string;
  /** Resolves with the reason if the service can never work. */
  readonly failed: Promise<CannotStart>;
  /**
   * Finishes the calls in flight, then stops.
   *
   * @param reason  for the log, such as the signal
   */
  close(reason?: string): Promise<void>;
}

/**
 * Opens the parts of the service: counters, rules, statistics, then the servers. `close` closes them in reverse.
 *
 * @throws CannotStart if rules at a plain path are invalid, an address cannot be bound, or certificates cannot be used
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
    const openOwnRules = (traits: StoreTraits) =>
      openRules(settings, traits, logRuleLoads(statistics, log), clock, log);
    const options = { clock, openRules: openOwnRules, isClosing: () => isClosing };
    const core = parts.add(await openCore(settings, options, log));
    const { counters, rules } = core;
    const responders =
      workers > 1
        ? createWorkers(settings, rules.book, statistics, log)
        : createLocalResponder(settings, core, statistics, clock, log);
    const { circuits: openCircuits, leased, refresh } = responders;
    const serviceGauges: ServiceGauges = {
      rules: rules.book.rules,
      lastLoad: rules.inForce,
      load: responders.load,
      store: () => counters.watch?.state(),
      memory: () => counters.memory?.held(),
      restarts: responders.restarts,
      version,
    };
    const gauges = () => referenceGauges(responders.cache());
    const stores = { openCircuits, leased };
    const metrics = createMetrics(statistics, () => core.readiness().ready, stores, serviceGauges);
    const { ask } = responders;
    const consolePages = parts.add(
      await openConsole(settings, { core, responders, statistics, metrics, ask, version }, clock),
    );
    const admin = parts.add(
      createAdminPages(settings, core, { ask, clock, version, more: consolePages.operations }, log),
    );
    const source = { statistics, gauges, refresh };
    const { debug, called } = parts.add(
      await openOpsServer(settings, core, source, metrics, admin, consolePages.routes, log),
    );
    const { grpc, http } = parts.add(await responders.open(called));
    const from = { rulesFrom: rules.description, rules: rules.book.rules(), counters: counters.description };
    return {
      banner: banner({ version, ...from, workers, grpc, http, debug, console: consoleAddress(settings, debug) }),
      failed: whenNeverReached(settings.REDIS_STARTUP_MAX_ELAPSED_TIME, counters),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
