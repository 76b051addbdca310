import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { memoryUsage } from 'node:process';
import { every, monotonicMs } from '../../base/clock.ts';
import type { Hash } from '../../base/hashed.ts';
import type { Records } from '../../engine/backends/records.ts';
import type { Overrides } from '../../engine/decide/overrides.ts';
import { formatProblem } from '../../engine/rules/read/problem.ts';
import type { ApiOperation } from '../../operate/admin/api.ts';
import { assetRoutes } from '../../operate/console/assets.ts';
import { healthFacts } from '../../operate/console/health-facts.ts';
import { Heartbeat, type InstanceReport } from '../../operate/console/instances.ts';
import { Live } from '../../operate/console/live.ts';
import { consoleOperations } from '../../operate/console/operations.ts';
import { PrometheusHistory } from '../../operate/console/prometheus-history.ts';
import { statusOperation } from '../../operate/console/status.ts';
import type { TimelineState } from '../../operate/console/timeline.ts';
import type { Findings } from '../../operate/findings/findings.ts';
import type { Metrics } from '../../operate/observe/prometheus.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Responders } from '../link/responders.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import type { Part } from '../parts/start-up.ts';
import type { SourcedRules } from './rules.ts';

/** The console's part of the debug port. */
interface ConsolePages extends Part {
  readonly operations: readonly ApiOperation[];
  readonly routes: Awaited<ReturnType<typeof assetRoutes>>;
  /** Requests of the last minute, as far as the statistics of workers have been collected. */
  requestsOfMinute(): number;
}

interface ConsoleSources {
  readonly records: Records;
  readonly rules: SourcedRules;
  readonly overrides: Pick<Overrides, 'all'>;
  /** Hashes values; undefined if they are shown unchanged. */
  readonly hash: Hash | undefined;
  readonly responders: Responders;
  readonly findings: Pick<Findings, 'list'>;
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
  const { rules, responders, statistics, metrics, version } = sources;
  const health = () => healthFacts({ rules, responders, workers: settings.workers });
  const live = new Live({
    statistics,
    ask: responders.ask,
    clock,
    every,
    durations: metrics.durations,
    latenessMs: () => responders.figures().latenessMs,
    health,
    timeline: () => timelineState(sources),
    findings: () => sources.findings.list(),
    hash: sources.hash,
    monotonicMs,
  });
  const facts = () => reportInstance(settings, sources, live);
  const self = () => ({ ...facts(), atMs: clock(), isThis: true });
  const heartbeat =
    settings.counters.store.kind === 'redis'
      ? new Heartbeat({ id: randomUUID(), records: sources.records, clock, every, facts })
      : undefined;
  return {
    operations: [
      ...consoleOperations({
        live,
        heartbeat,
        clock,
        hash: sources.hash,
        prometheus: settings.prometheus && new PrometheusHistory({ ...settings.prometheus, clock }),
        self,
        rules: rules.book.rules,
        lastLoad: rules.lastLoad,
        lastReload: rules.lastReload,
      }),
      statusOperation({
        clock,
        version,
        live,
        health,
        statistics,
        isReady: responders.isReady,
        rulesSource: rules.description,
        overrides: () => sources.overrides.all(),
        candidate: () => rules.candidate.facts,
        findings: () => sources.findings.list(),
        ownBytes: memoryUsage.rss,
        instance: self,
        instances: heartbeat && (() => heartbeat.list()),
      }),
    ],
    routes: await assetRoutes(),
    requestsOfMinute: () => live.service.requestsOfMinute(statistics),
    async close() {
      live.close();
      await heartbeat?.close();
    },
  };
}

function reportInstance(settings: Settings, { rules, version }: ConsoleSources, live: Live): InstanceReport {
  const { passed, refused, degraded } = live.service.last;
  const hash = rules.inForce()?.hash;
  return {
    name: hostname(),
    version,
    workers: settings.workers,
    startedAtMs: live.startedAtMs,
    ...(hash !== undefined && { rules: hash }),
    decisionsPerSecond: passed + refused + degraded,
    refusedPerSecond: refused,
  };
}

function timelineState({ rules, responders, overrides }: ConsoleSources): TimelineState {
  const last = rules.lastLoad();
  const [problem] = last && !last.ok ? last.problems : [];
  const reloaded = rules.lastReload();
  return {
    reload: reloaded && { atMs: reloaded.atMs, text: reloaded.reload.text ?? 'no rule has changed' },
    problem: problem && formatProblem(problem),
    store: responders.store(),
    candidate: rules.candidate.facts,
    overrides: [...overrides.all()],
  };
}
