import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import { addFigures, addSites, keptFigures, readFigures } from '../../operate/observe/figures.ts';
import type { SitesReport } from '../../operate/observe/site-counts.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { ReportedFigures, StoreFacts } from '../../operate/observe/table.ts';
import type { WorkReport } from '../../operate/observe/work-state.ts';
import type { Report } from '../link/messages.ts';

/**
 * Sums over all deciders.
 *
 * @param statistics  receives the counts of reports
 */
export function createTotals(statistics: Statistics) {
  const states = new Map<number, Omit<Report, 'counted' | 'calls'>>();
  let kept: Partial<ReportedFigures> = {};
  const all = () => [...states.values()];
  return {
    add(decider: number, { counted, calls, ...state }: Report, onCallFinished: OnCallFinished): void {
      statistics.merge(counted);
      states.set(decider, state);
      for (const { method, status, elapsedMs } of calls) for (const ms of elapsedMs) onCallFinished(method, status, ms);
    },
    /** Records that a decider has ended. Its counts are kept; its calls, cache and leases are gone. */
    ended(decider: number): void {
      const state = states.get(decider);
      states.delete(decider);
      if (!state) return;
      kept = addFigures(kept, keptFigures(state.figures));
      statistics.missed('lost', state.figures.inFlight);
    },
    figures: (): ReportedFigures =>
      all().reduce((total, { figures }) => addFigures(total, figures), addFigures(readFigures(), kept)),
    /** The number of deciders with an open circuit, for each node of the store. */
    openCircuits(): ReadonlyMap<string, number> {
      const open = new Map<string, number>();
      for (const { circuits } of states.values())
        for (const [node, state] of circuits) open.set(node, (open.get(node) ?? 0) + (state === 'closed' ? 0 : 1));
      return open;
    },
    /** Whether there is a decider, and every one can decide requests. */
    isReady: (): boolean => states.size > 0 && all().every(({ isReady }) => isReady),
    /** State of the store according to the decider that reaches it least; undefined for counters in memory. */
    store(): StoreFacts | undefined {
      const stores = all().flatMap(({ store }) => store ?? []);
      return stores.find(({ isUp }) => !isUp) ?? stores[0];
    },
    background: (): readonly WorkReport[] => all().flatMap(({ background }) => background),
    /** Exchanges with other sites; undefined if this is the only one. */
    sites: (): SitesReport | undefined =>
      all()
        .flatMap(({ sites }) => sites ?? [])
        .reduce<SitesReport | undefined>((total, sites) => (total ? addSites(total, sites) : sites), undefined),
  };
}

/** Whether nothing was asked since the last report. */
export const isIdle = ({ counted: { answers, calls, undecided } }: Report): boolean =>
  [answers, calls, undecided].every((tally) => Object.values(tally).every((count) => count === 0));
