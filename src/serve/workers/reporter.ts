import type { Breakers } from '../../backends/breaker.ts';
import type { DenyCacheState } from '../../ledger/refusals.ts';
import type { Load } from '../../observe/service-gauges.ts';
import { type Counted, countedBy, createStatistics } from '../../observe/stats.ts';
import { SLICE_ITEMS } from '../../slices.ts';
import type { Told } from '../answering.ts';
import { NO_LOAD } from '../crew.ts';
import type { CallTimes, Report } from './messages.ts';

/** What a worker keeps of its counters, as a report tells of it. */
export interface Kept {
  readonly ledger: {
    readonly refusals: DenyCacheState | undefined;
    readonly leases: { readonly leased: number } | undefined;
  };
  readonly breakers: Pick<Breakers, 'states'>;
}

/** Gathers what a worker is told, for the primary process. */
export interface Reporter extends Told {
  /** What has come since the last time. */
  take(kept: Kept | undefined, load?: Load): Report;
}

/** How many calls of a kind are timed in one report: a primary process that asks for none must not fill the memory. */
const MAX_TIMES = 100_000;

/**
 * @param nearLimitRatio  the part of a limit above which hits count as near it, 0 to 1
 * @param maxNameBytes    what the names that callers make may come to in one report
 */
export function createReporter(nearLimitRatio: number, maxNameBytes?: number): Reporter {
  let statistics = createStatistics(nearLimitRatio, maxNameBytes);
  let times = new Map<string, CallTimes & { readonly elapsedMs: number[] }>();
  return {
    answered: (domain, answer) => statistics.answered(domain, answer),
    failed: (cause) => statistics.failed(cause),
    shed: () => statistics.shed(),
    decisionsNotLogged: (decisions) => statistics.decisionsNotLogged(decisions),
    connectionFailed: (code) => statistics.connectionFailed(code),
    called(method, status, elapsedMs) {
      statistics.called(method);
      const kind = `${method} ${status}`;
      const known = times.get(kind);
      if (!known) times.set(kind, { method, status, elapsedMs: [elapsedMs] });
      else if (known.elapsedMs.length < MAX_TIMES) known.elapsedMs.push(elapsedMs);
    },
    take(kept, load = NO_LOAD) {
      const counted = countedBy(statistics);
      const calls = [...times.values()];
      statistics = createStatistics(nearLimitRatio, maxNameBytes);
      times = new Map();
      const cache = kept?.ledger.refusals;
      const circuits = kept?.breakers.states() ?? new Map();
      const leased = kept?.ledger.leases?.leased ?? 0;
      return { counted, calls, circuits, leased, load, cache: cache && { counts: cache.counts, size: cache.size() } };
    },
  };
}

const NOTHING: Counted = countedBy(createStatistics(0));

/**
 * A report as several that say the same together, with so few names each that writing or reading one takes no longer than a slice of other work. The first
 * has all that is not counted by name.
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
