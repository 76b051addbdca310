import type { Clock } from '../base/clock.ts';
import type { StoreTraits } from '../engine/rules/compile/fit.ts';
import { createLogger } from '../operate/observe/log.ts';
import { logRuleLoads } from '../operate/observe/rule-loads.ts';
import { createStatistics } from '../operate/observe/stats.ts';
import type { Settings } from '../settings/settings.ts';
import { spendProblemOf } from '../settings/store-traits.ts';
import { banner, consoleAddress } from './banner.ts';
import { openCore } from './core.ts';
import { openRules } from './open/rules.ts';
import { whenNeverReached } from './open/store.ts';
import { openTls } from './open/transport.ts';
import { openOps } from './ops.ts';
import { contextOf } from './parts/process-context.ts';
import { CannotStart, openParts } from './parts/start-up.ts';
import { openLocalResponder } from './responder.ts';
import { openWorkers } from './workers/pool.ts';

/** A running service. */
interface Service {
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
 * Opens the parts of the service: counters and rules, the responders, the operators' port, then the servers. `close`
 * closes them in reverse order.
 *
 * @throws CannotStart if rules at a plain path are invalid, an address cannot be bound, or certificates cannot be used
 */
export async function serve(settings: Settings, clock: Clock, version: string): Promise<Service> {
  const log = createLogger(settings.log);
  for (const warning of settings.warnings) log.warn(warning);
  const spendProblem = spendProblemOf(settings.counters);
  if (spendProblem?.isFatal) throw new CannotStart(spendProblem.message);
  if (spendProblem) log.warn(spendProblem.message);

  const { workers } = settings;
  const context = contextOf(clock, log, settings.recording !== undefined);
  const { core, ops, servers, close } = await openParts(async (add) => {
    const statistics = createStatistics(settings.statistics.nearLimitRatio, settings.statistics.maxNameBytes);
    const open = (traits: StoreTraits) => openRules(settings.rules, traits, logRuleLoads(statistics, log), context);
    const core = add(await openCore(settings, open, context));
    const { tls } = settings.grpc;
    if (workers > 1 && tls) add(await openTls('GRPC_SERVER_USE_TLS', tls.files, context)); // to pass them to workers
    const responders = add(
      workers > 1
        ? openWorkers(settings, core.rules, statistics, log)
        : await openLocalResponder(settings, core, statistics, context),
    );
    const ops = add(await openOps(settings, { core, responders, statistics, version }, context));
    const servers = add(await responders.listen(ops.onCallFinished));
    add(core.readiness);
    return { core, ops, servers };
  });

  const { rules, store } = core;
  let isClosing = false;
  return {
    banner: banner({
      ...{ version, workers, grpc: servers.grpc, http: servers.http, debug: ops.debug },
      console: consoleAddress(settings.debug.tls !== undefined, ops.debug),
      ...{ rulesFrom: rules.description, notes: rules.notes, rules: rules.book.rules(), counters: store.description },
    }),
    failed: whenNeverReached(settings.counters.startup.maxElapsedMs, store),
    async close(reason) {
      if (reason !== undefined && !isClosing) log.info(`shutting down: ${reason}`);
      isClosing = true;
      await close();
    },
  };
}
