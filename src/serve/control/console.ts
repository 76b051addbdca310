import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Clock, every, monotonicMs } from '../../base/clock.ts';
import type { Hash } from '../../base/hashed.ts';
import type { Records } from '../../engine/backends/records.ts';
import { assetRoutes } from '../../operate/console/assets.ts';
import { healthFacts } from '../../operate/console/health-facts.ts';
import { Heartbeat } from '../../operate/console/instances.ts';
import { Live } from '../../operate/console/live.ts';
import { consoleOperations } from '../../operate/console/operations.ts';
import type { Metrics } from '../../operate/observe/prometheus.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Responders } from '../link/responders.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import type { Part } from '../parts/start-up.ts';
import type { SourcedRules } from './rules.ts';

/** The console's part of the debug port. */
interface ConsolePages extends Part {
  readonly operations: ReturnType<typeof consoleOperations>;
  readonly routes: Awaited<ReturnType<typeof assetRoutes>>;
  /** Requests of the last minute, as far as the statistics of workers have been collected. */
  requestsOfMinute(): number;
}

interface ConsoleSources {
  readonly records: Records;
  readonly rules: SourcedRules;
  /** Undefined: values are shown unchanged. */
  readonly hash: Hash | undefined;
  readonly responders: Responders;
  readonly statistics: Statistics;
  readonly metrics: Pick<Metrics, 'durations'>;
  readonly version: string;
}

/** Opens the console: its series begin now. */
export async function openConsole(
  settings: Settings,
  sources: ConsoleSources,
  { clock }: ProcessContext,
): Promise<ConsolePages> {
  const { rules, responders, statistics, metrics } = sources;
  const live = new Live({
    ...{ statistics, ask: responders.ask, clock, every },
    durations: metrics.durations,
    latenessMs: () => responders.figures().latenessMs,
    health: () => healthFacts({ rules, responders, workers: settings.workers }),
    hash: sources.hash,
    monotonicMs,
  });
  const heartbeat =
    settings.counters.store.kind === 'redis' ? openHeartbeat(settings, sources, live, clock) : undefined;
  return {
    operations: consoleOperations({
      ...{ live, heartbeat, clock },
      ...{ rules: rules.book.rules, lastLoad: rules.lastLoad, lastReload: rules.lastReload },
    }),
    routes: await assetRoutes(),
    requestsOfMinute: () => live.service.requestsOfMinute(statistics),
    async close() {
      live.close();
      await heartbeat?.close();
    },
  };
}

function openHeartbeat(settings: Settings, { records, rules, version }: ConsoleSources, live: Live, clock: Clock) {
  return new Heartbeat({
    id: randomUUID(),
    ...{ records, clock, every },
    facts: () => {
      const { passed, refused } = live.service.last;
      const hash = rules.inForce()?.hash;
      return {
        name: hostname(),
        version,
        workers: settings.workers,
        startedAtMs: live.startedAtMs,
        ...(hash !== undefined && { rules: hash }),
        decisionsPerSecond: passed + refused,
        refusedPerSecond: refused,
      };
    },
  });
}
