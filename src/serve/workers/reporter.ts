import { SLICE_ITEMS } from '../../base/slices.ts';
import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import type { Breakers } from '../../engine/backends/breaker.ts';
import type { DenyCacheState } from '../../engine/ledger/refusals.ts';
import type { Load } from '../../operate/observe/service-gauges.ts';
import type { ServiceObserver } from '../../operate/observe/service-observer.ts';
import { type Counted, countedBy, createStatistics } from '../../operate/observe/stats.ts';
import type { CallTimes, Report } from './messages.ts';

/** The gauges of a worker in its reports. */
export interface WorkerGauges {
  readonly ledger: {
    readonly refusals: DenyCacheState | undefined;
    readonly leases: { readonly leased: number } | undefined;
  };
  readonly breakers: Pick<Breakers, 'states'>;
}

/** Collects a worker's counts for the primary process. */
interface Reporter extends ServiceObserver {
  readonly onCallFinished: OnCallFinished;
  /** The counts since the last report. */
  take(gauges: WorkerGauges | undefined, load?: Load): Report;
}

export const NO_LOAD: Load = {
  ...{ inFlight: 0, held: 0, connections: 0, watches: 0, latenessMs: 0 },
  ...{ callerBytes: 0, callerMaxBytes: 0 },
};

/** The most timed calls per method and status in a report: bounds memory even if no reports are requested. */
const MAX_TIMES = 100_000;

/**
 * @param nearLimitRatio  fraction of a limit above which hits count as near it, 0 to 1
 * @param maxNameBytes    limit for names created by callers, in one report
 */
export function createReporter(nearLimitRatio: number, maxNameBytes?: number): Reporter {
  let statistics = createStatistics(nearLimitRatio, maxNameBytes);
  let times = new Map<string, CallTimes & { readonly elapsedMs: number[] }>();
  return {
    answered: (domain, answer) => statistics.answered(domain, answer),
    failed: (cause) => statistics.failed(cause),
    missed: (by) => statistics.missed(by),
    decisionsNotLogged: (decisions) => statistics.decisionsNotLogged(decisions),
    recorded: (requests, notRecorded) => statistics.recorded(requests, notRecorded),
    connectionFailed: (code) => statistics.connectionFailed(code),
    onCallFinished(method, status, elapsedMs) {
      statistics.onCallFinished(method);
      const kind = `${method} ${status}`;
      const known = times.get(kind);
      if (!known) times.set(kind, { method, status, elapsedMs: [elapsedMs] });
      else if (known.elapsedMs.length < MAX_TIMES) known.elapsedMs.push(elapsedMs);
    },
    take(gauges, load = NO_LOAD) {
      const counted = countedBy(statistics);
      const calls = [...times.values()];
      statistics = createStatistics(nearLimitRatio, maxNameBytes);
      times = new Map();
      const cache = gauges?.ledger.refusals;
      const circuits = gauges?.breakers.states() ?? new Map();
      const leased = gauges?.ledger.leases?.leased ?? 0;
      return { counted, calls, circuits, leased, load, cache: cache && { counts: cache.counts, size: cache.size() } };
    },
  };
}

const NOTHING: Counted = countedBy(createStatistics(0));

/**
 * Splits a report into parts with a limited number of names, so that handling a part takes no longer than a slice of
 * other work. The first part has everything that is not counted by name.
 */
export function* partsOf(report: Report): Iterable<Report> {
  const { rules, unknownDomains } = report.counted;
  const domains = [...unknownDomains];
  for (let from = 0; from === 0 || from < Math.max(rules.length, domains.length); from += SLICE_ITEMS) {
    const names = {
      rules: rules.slice(from, from + SLICE_ITEMS),
      unknownDomains: new Map(domains.slice(from, from + SLICE_ITEMS)),
    };
    yield from === 0
      ? { ...report, counted: { ...report.counted, ...names } }
      : { ...report, counted: { ...NOTHING, ...names }, calls: [] };
  }
}
