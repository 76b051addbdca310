import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import type { ReadinessCheck } from '../../edge/rls/health.ts';
import type { StoreWatch } from '../../engine/backends/store-watch.ts';
import type { OpenBackends } from '../../engine/open/open-backends.ts';
import { readFigures } from '../../operate/observe/figures.ts';
import type { SitesReport } from '../../operate/observe/site-counts.ts';
import { type Counted, createStatistics, type Statistics } from '../../operate/observe/stats.ts';
import type { ReportedFigures } from '../../operate/observe/table.ts';
import type { Background } from '../../operate/observe/work-state.ts';
import type { CallTimes, Report } from '../link/messages.ts';

/** Notified of the outcome of requests. */
export type ServiceObserver = Pick<
  Statistics,
  | 'answered'
  | 'failed'
  | 'connectionFailed'
  | 'missed'
  | 'lapsed'
  | 'notified'
  | 'recorded'
  | 'storeCalled'
  | 'decisionsNotLogged'
> & {
  /** Forgets what happens during the work. */
  ignore(work: () => Promise<void>): Promise<void>;
};

interface DeciderState {
  readonly store: {
    readonly circuits?: OpenBackends['circuits'];
    readonly watch?: Pick<StoreWatch, 'state'> | undefined;
  };
  readonly readiness: Pick<ReadinessCheck, 'state'>;
  figures(): ReportedFigures;
  sites(): SitesReport | undefined;
  readonly background: Pick<Background, 'report'>;
}

/** Maximum number of names in a part of a report, about a millisecond of work. */
const PART_NAMES = 1_000;

/** Maximum number of timed calls per method and status in a report: bounds memory even if none are requested. */
const MAX_TIMES = 100_000;

/**
 * Collects a decider's counts for the control process.
 *
 * @param nearLimitRatio  fraction of a limit above which hits count as near it, 0 to 1
 * @param maxNameBytes    limit for names created by callers, in one report
 */
export function createReporter(nearLimitRatio: number, maxNameBytes?: number) {
  const reported = createStatistics(nearLimitRatio, maxNameBytes);
  let statistics = createStatistics(nearLimitRatio, maxNameBytes);
  let times = new CallTimer();
  let isIgnored = false;
  const clear = (): void => {
    statistics = createStatistics(nearLimitRatio, maxNameBytes);
    times = new CallTimer();
  };
  const observer: ServiceObserver = {
    answered: (domain, answer) => statistics.answered(domain, answer),
    failed: (cause) => statistics.failed(cause),
    missed: (by) => statistics.missed(by),
    lapsed: (counter, hits) => statistics.lapsed(counter, hits),
    notified: (counter) => statistics.notified(counter),
    decisionsNotLogged: (decisions) => statistics.decisionsNotLogged(decisions),
    recorded: (requests, notRecorded) => statistics.recorded(requests, notRecorded),
    storeCalled: (operations, elapsedMs, calls) => statistics.storeCalled(operations, elapsedMs, calls),
    connectionFailed: (code) => statistics.connectionFailed(code),
    async ignore(work) {
      isIgnored = true;
      await work();
      clear();
      isIgnored = false;
    },
  };
  return {
    ...observer,
    onCallFinished(...[method, status, elapsedMs]: Parameters<OnCallFinished>): void {
      statistics.onCallFinished(method);
      times.add(method, status, elapsedMs);
    },
    /**
     * The counts since the last report, or since the start, for a control process that has none of the earlier reports.
     * Durations of calls are those since the last report.
     *
     * @param state  undefined if the decider is not open
     */
    take(since: 'start' | 'last', state?: DeciderState): Report {
      if (isIgnored) clear();
      const counted = statistics.counted();
      const calls = times.all();
      reported.merge(counted);
      clear();
      return { counted: since === 'start' ? reported.counted() : counted, calls, ...describeState(state) };
    },
  };
}

const describeState = (state: DeciderState | undefined): Omit<Report, 'counted' | 'calls'> => ({
  circuits: state?.store.circuits?.() ?? new Map(),
  figures: state?.figures() ?? readFigures(),
  sites: state?.sites(),
  background: state?.background.report() ?? [],
  isReady: state?.readiness.state().ready ?? false,
  store: state?.store.watch?.state(),
});

/** The durations of calls, by method and status. */
class CallTimer {
  readonly #byMethod = new Map<CallTimes['method'], Map<CallTimes['status'], number[]>>();

  add(method: CallTimes['method'], status: CallTimes['status'], elapsedMs: number): void {
    const byStatus = this.#byMethod.get(method) ?? new Map<CallTimes['status'], number[]>();
    if (byStatus.size === 0) this.#byMethod.set(method, byStatus);
    const times = byStatus.get(status);
    if (!times) byStatus.set(status, [elapsedMs]);
    else if (times.length < MAX_TIMES) times.push(elapsedMs);
  }

  all(): readonly CallTimes[] {
    return Array.from(this.#byMethod, ([method, byStatus]) =>
      Array.from(byStatus, ([status, elapsedMs]) => ({ method, status, elapsedMs })),
    ).flat();
  }
}

const NOTHING: Counted = createStatistics(0).counted();

/**
 * Splits a report into parts with a limited number of names, so that handling a part takes no longer than a slice of
 * other work. The first part has everything that is not counted by name.
 */
export function* splitReport(report: Report): Iterable<Report> {
  const { rules, unknownDomains } = report.counted;
  const domains = [...unknownDomains];
  for (let from = 0; from === 0 || from < Math.max(rules.length, domains.length); from += PART_NAMES) {
    const names = {
      rules: rules.slice(from, from + PART_NAMES),
      unknownDomains: new Map(domains.slice(from, from + PART_NAMES)),
    };
    yield from === 0
      ? { ...report, counted: { ...report.counted, ...names } }
      : { ...report, counted: { ...NOTHING, ...names }, calls: [] };
  }
}
