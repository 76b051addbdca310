import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { memoryUsage } from 'node:process';
import type { Clock } from '../clock.ts';
import { assetRoutes } from '../console/assets.ts';
import { Heartbeat } from '../console/instances.ts';
import { type HealthFacts, Live } from '../console/live.ts';
import { consoleOperations } from '../console/operations.ts';
import { hashed } from '../hashed.ts';
import type { Metrics } from '../observe/prometheus.ts';
import type { Statistics } from '../observe/stats.ts';
import { formatProblem } from '../rules/problem.ts';
import type { Settings } from '../settings.ts';
import type { Core } from './core.ts';
import type { Part, ProcessContext } from './parts.ts';
import type { Responders } from './responders.ts';
import { every } from './store.ts';

/** The console's part of the debug port. */
export interface ConsolePages extends Part {
  readonly operations: ReturnType<typeof consoleOperations>;
  readonly routes: Awaited<ReturnType<typeof assetRoutes>>;
}

export interface ConsoleSources {
  readonly core: Core;
  readonly responders: Responders;
  readonly statistics: Statistics;
  readonly metrics: Pick<Metrics, 'durations'>;
  readonly version: string;
}

const MAX_SHOWN_PROBLEMS = 20;

/** Opens the console: series are gathered from now on. */
export async function openConsole(
  settings: Settings,
  sources: ConsoleSources,
  { clock }: ProcessContext,
): Promise<ConsolePages> {
  const { core, responders, statistics, metrics } = sources;
  const { rules } = core;
  const live = new Live({
    ...{ statistics, ask: responders.ask, clock, every },
    durations: metrics.durations,
    latenessMs: core.store.lateness.latenessMs,
    health: () => healthFacts(settings, sources),
    hash: settings.admin.hashKeys ? hashed : undefined,
    monotonicMs: () => performance.now(),
  });
  const heartbeat =
    settings.counters.store.kind === 'redis' ? openHeartbeat(settings, sources, live, clock) : undefined;
  return {
    operations: consoleOperations({
      ...{ live, heartbeat, clock },
      ...{ rules: rules.book.rules, lastLoad: rules.lastLoad, lastReload: rules.lastReload },
    }),
    routes: await assetRoutes(),
    async close() {
      live.close();
      await heartbeat?.close();
    },
  };
}

function openHeartbeat(settings: Settings, sources: ConsoleSources, live: Live, clock: Clock): Heartbeat {
  const { core, version } = sources;
  return new Heartbeat({
    id: randomUUID(),
    records: core.store.records,
    clock,
    every,
    facts: () => {
      const { passed, refused } = live.service.last;
      const hash = core.rules.inForce()?.hash;
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

function healthFacts(
  settings: Settings,
  { core: { store: counters, rules }, responders }: ConsoleSources,
): HealthFacts {
  const store = counters.watch?.state();
  const cache = responders.cache();
  const memory = counters.memory?.held();
  const { rss, heapUsed } = memoryUsage();
  return {
    store: {
      description: counters.description,
      ...(store && { isUp: store.isUp }),
      ...(store?.reason !== undefined && { reason: store.reason }),
      ...(store?.latencyMs !== undefined && { latencyMs: Math.round(store.latencyMs * 100) / 100 }),
      ...(store?.lastSuccessAtMs !== undefined && { lastSuccessAtMs: store.lastSuccessAtMs }),
    },
    circuits: Array.from(responders.openCircuits(), ([node, open]) => ({ node, open })),
    ...(memory && { memory }),
    load: responders.load(),
    leased: responders.leased(),
    ...(cache && { denyCache: { size: cache.size(), ...cache.counts } }),
    workers: { expected: settings.workers, restarts: responders.restarts() },
    process: { rssBytes: rss, heapBytes: heapUsed },
    rules: rulesFacts(rules),
  };
}

function rulesFacts(rules: Core['rules']): HealthFacts['rules'] {
  const inForce = rules.inForce();
  const last = rules.lastLoad();
  const problems = last && !last.ok ? last.problems : [];
  return {
    ...(inForce && { hash: inForce.hash, loadedAtMs: inForce.atMs }),
    isNewest: inForce?.isNewest ?? true,
    count: rules.book.rules()?.rules.length ?? 0,
    problems: problems.slice(0, MAX_SHOWN_PROBLEMS).map(formatProblem),
    moreProblems: Math.max(problems.length - MAX_SHOWN_PROBLEMS, 0),
  };
}

/** For a browser on this machine. @param debug  the address of the debug port */
export function consoleAddress({ tls }: Settings['debug'], debug: string): string {
  const at = debug.lastIndexOf(':');
  const host = debug.slice(0, at);
  const isAny = ['0.0.0.0', '::', '[::]', '', '127.0.0.1', '::1'].includes(host);
  return `${tls ? 'https' : 'http'}://${isAny ? 'localhost' : host}:${debug.slice(at + 1)}/console/`;
}
