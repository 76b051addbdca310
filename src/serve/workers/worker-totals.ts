import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import { sumOfQuotaCounts } from '../../edge/rlqs/quota-counts.ts';
import { sumOfSites } from '../../edge/sites/site-counts.ts';
import type { CommitCounts } from '../../engine/ledger/pending-commits.ts';
import type { DenyCacheCounts, DenyCacheState } from '../../engine/ledger/refusals.ts';
import type { Load } from '../../operate/observe/service-gauges.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { Report } from './messages.ts';
import { NO_LOAD } from './reporter.ts';
import { countOpen } from './responders.ts';

/** The sums over all workers. */
interface WorkerTotals {
  add(worker: number, report: Report, onCallFinished: OnCallFinished): void;
  /** The worker has ended: its counts are kept; its cache, leases and what it held are gone. */
  ended(worker: number): void;
  /** Leased but unused hits. */
  leased(): number;
  /** The number of workers with an open circuit, for each node of the store. */
  openCircuits(): ReadonlyMap<string, number>;
  load(): Load;
  /** The sum of all caches of refusals; undefined: no worker has one. */
  cache(): DenyCacheState | undefined;
}

/** @param statistics  receives the counts of reports */
export function createWorkerTotals(statistics: Statistics): WorkerTotals {
  const circuits = new Map<number, Report['circuits']>();
  const leases = new Map<number, number>();
  const loads = new Map<number, Load>();
  const caches = new Map<number, NonNullable<Report['cache']>>();
  let ofEnded: DenyCacheCounts | undefined;
  let loadOfEnded = NO_LOAD;
  return {
    add(worker, { counted, calls, cache, circuits: states, leased, load }, onCallFinished) {
      statistics.merge(counted);
      circuits.set(worker, states);
      leases.set(worker, leased);
      loads.set(worker, load);
      for (const { method, status, elapsedMs } of calls) for (const ms of elapsedMs) onCallFinished(method, status, ms);
      if (cache) caches.set(worker, cache);
    },
    ended(worker) {
      const { counts } = caches.get(worker) ?? {};
      loadOfEnded = addLoads(loadOfEnded, pastOf(loads.get(worker) ?? NO_LOAD));
      caches.delete(worker);
      circuits.delete(worker);
      leases.delete(worker);
      loads.delete(worker);
      if (counts) ofEnded = ofEnded ? sum(ofEnded, counts) : counts;
    },
    leased: () => [...leases.values()].reduce((sum, leased) => sum + leased, 0),
    load: () => [...loads.values()].reduce(addLoads, loadOfEnded),
    openCircuits: () => countOpen([...circuits.values()]),
    cache() {
      const all = [...(ofEnded ? [ofEnded] : []), ...Array.from(caches.values(), ({ counts }) => counts)];
      if (all.length === 0) return undefined;
      const size = [...caches.values()].reduce((total, cache) => total + cache.size, 0);
      return { counts: all.reduce(sum), size: () => size };
    },
  };
}

/** What a process has counted, without what it held. */
const pastOf = ({ quotas, commits }: Load): Load => ({
  ...NO_LOAD,
  ...(quotas && { quotas: { ...quotas, streams: 0, buckets: 0 } }),
  ...(commits && { commits: { ...commits, pending: 0 } }),
});

const addLoads = (one: Load, other: Load): Load => ({
  inFlight: one.inFlight + other.inFlight,
  held: one.held + other.held,
  connections: one.connections + other.connections,
  watches: one.watches + other.watches,
  latenessMs: Math.max(one.latenessMs, other.latenessMs),
  callerBytes: one.callerBytes + other.callerBytes,
  callerMaxBytes: one.callerMaxBytes + other.callerMaxBytes,
  ...addQuotas(one.quotas, other.quotas),
  ...addCommits(one.commits, other.commits),
  ...addSites(one.sites, other.sites),
});

const NO_COMMITS: CommitCounts = { pending: 0, sent: 0, dropped: 0 };

function addCommits(one: Load['commits'], other: Load['commits']): Pick<Load, 'commits'> {
  if (!one && !other) return {};
  const [a, b] = [one ?? NO_COMMITS, other ?? NO_COMMITS];
  return {
    commits: { pending: a.pending + b.pending, sent: a.sent + b.sent, dropped: a.dropped + b.dropped },
  };
}

function addQuotas(one: Load['quotas'], other: Load['quotas']): Pick<Load, 'quotas'> {
  const known = one ?? other;
  if (!known) return {};
  return { quotas: one && other ? sumOfQuotaCounts(one, other) : known };
}

function addSites(one: Load['sites'], other: Load['sites']): Pick<Load, 'sites'> {
  const known = one ?? other;
  if (!known) return {};
  return { sites: one && other ? sumOfSites(one, other) : known };
}

const sum = (one: DenyCacheCounts, other: DenyCacheCounts): DenyCacheCounts => ({
  lookups: one.lookups + other.lookups,
  hits: one.hits + other.hits,
  expired: one.expired + other.expired,
  evicted: one.evicted + other.evicted,
  overwritten: one.overwritten + other.overwritten,
});
