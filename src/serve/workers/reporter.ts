import { countedBy, createStatistics } from '../../observe/stats.ts';
import type { Breakers } from '../../stores/breaker.ts';
import type { DenyCacheState } from '../../stores/deny-cache.ts';
import type { Told } from '../answering.ts';
import type { CallTimes, Report } from './messages.ts';

/** What a worker keeps of its counters, as a report tells of it. */
export interface Kept {
  readonly cache: DenyCacheState | undefined;
  readonly breakers: Pick<Breakers, 'states'>;
  readonly leases: { readonly leased: number } | undefined;
}

/** Gathers what a worker is told, for the primary process. */
export interface Reporter extends Told {
  /** What has come since the last time. */
  take(kept: Kept | undefined): Report;
}

/** How many calls of a kind are timed in one report: a primary process that asks for none must not fill the memory. */
const MAX_TIMES = 100_000;

/** @param nearLimitRatio  the part of a limit above which hits count as near it, 0 to 1 */
export function createReporter(nearLimitRatio: number): Reporter {
  let statistics = createStatistics(nearLimitRatio);
  let times = new Map<string, CallTimes & { readonly elapsedMs: number[] }>();
  return {
    answered: (domain, answer) => statistics.answered(domain, answer),
    failed: (cause) => statistics.failed(cause),
    shed: () => statistics.shed(),
    connectionFailed: (code) => statistics.connectionFailed(code),
    called(method, status, elapsedMs) {
      statistics.called(method);
      const kind = `${method} ${status}`;
      const known = times.get(kind);
      if (!known) times.set(kind, { method, status, elapsedMs: [elapsedMs] });
      else if (known.elapsedMs.length < MAX_TIMES) known.elapsedMs.push(elapsedMs);
    },
    take(kept) {
      const counted = countedBy(statistics);
      const calls = [...times.values()];
      statistics = createStatistics(nearLimitRatio);
      times = new Map();
      const cache = kept?.cache;
      const circuits = kept?.breakers.states() ?? new Map();
      const leased = kept?.leases?.leased ?? 0;
      return { counted, calls, circuits, leased, cache: cache && { counts: cache.counts, size: cache.size() } };
    },
  };
}
