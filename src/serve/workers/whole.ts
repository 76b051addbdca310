import type { DenyCacheCounts, DenyCacheState } from '../../ledger/refusals.ts';
import type { Load } from '../../observe/service-gauges.ts';
import type { Statistics } from '../../observe/stats.ts';
import type { OnCall } from '../../transport/grpc-server.ts';
import { NO_LOAD, openCircuits } from '../crew.ts';
import type { Report } from './messages.ts';

/** What all workers together have done. */
export interface Whole {
  add(worker: number, report: Report, called: OnCall): void;
  /** The worker has ended: what it counted stays, what it remembered is gone. */
  ended(worker: number): void;
  /** Hits that workers have leased and not used. */
  leased(): number;
  /** For each node of the store, how many workers have their circuit to it open. */
  circuits(): ReadonlyMap<string, number>;
  load(): Load;
  /** All caches of refusals as one; undefined where no worker has told of one. */
  cache(): DenyCacheState | undefined;
}

/** @param statistics  where the counts of reports are added */
export function createWhole(statistics: Statistics): Whole {
  const circuits = new Map<number, Report['circuits']>();
  const leases = new Map<number, number>();
  const loads = new Map<number, Load>();
  const caches = new Map<number, NonNullable<Report['cache']>>();
  let ofEnded: DenyCacheCounts | undefined;
  return {
    add(worker, { counted, calls, cache, circuits: states, leased, load }, called) {
      statistics.merge(counted);
      circuits.set(worker, states);
      leases.set(worker, leased);
      loads.set(worker, load);
      for (const { method, status, elapsedMs } of calls) for (const ms of elapsedMs) called(method, status, ms);
      if (cache) caches.set(worker, cache);
    },
    ended(worker) {
      const { counts } = caches.get(worker) ?? {};
      caches.delete(worker);
      circuits.delete(worker);
      leases.delete(worker);
      loads.delete(worker);
      if (counts) ofEnded = ofEnded ? sum(ofEnded, counts) : counts;
    },
    leased: () => [...leases.values()].reduce((sum, leased) => sum + leased, 0),
    load: () => [...loads.values()].reduce(addLoads, NO_LOAD),
    circuits: () => openCircuits([...circuits.values()]),
    cache() {
      const all = [...(ofEnded ? [ofEnded] : []), ...Array.from(caches.values(), ({ counts }) => counts)];
      if (all.length === 0) return undefined;
      const size = [...caches.values()].reduce((total, cache) => total + cache.size, 0);
      return { counts: all.reduce(sum), size: () => size };
    },
  };
}

const addLoads = (one: Load, other: Load): Load => ({
  inFlight: one.inFlight + other.inFlight,
  held: one.held + other.held,
  connections: one.connections + other.connections,
  shedShare: Math.max(one.shedShare, other.shedShare),
});

const sum = (one: DenyCacheCounts, other: DenyCacheCounts): DenyCacheCounts => ({
  lookups: one.lookups + other.lookups,
  hits: one.hits + other.hits,
  expired: one.expired + other.expired,
  evicted: one.evicted + other.evicted,
  overwritten: one.overwritten + other.overwritten,
});
