import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import { sumQuotaCounts } from '../../edge/rlqs/quota-counts.ts';
import { sumSites } from '../../edge/sites/site-counts.ts';
import type { BreakerState } from '../../engine/backends/breaker.ts';
import type { CommitCounts } from '../../engine/ledger/pending-commits.ts';
import type { DenyCacheCounts, DenyCacheState } from '../../engine/ledger/refusals.ts';
import { addUse, ownUse, type ProcessUse } from '../../operate/observe/process-use.ts';
import type { Load, MemoryFacts, StoreFacts } from '../../operate/observe/service-gauges.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { Report } from '../link/messages.ts';

/** The load of no process. */
export const NO_LOAD: Load = {
  ...{ inFlight: 0, held: 0, connections: 0, watches: 0, latenessMs: 0 },
  ...{ callerBytes: 0, callerMaxBytes: 0 },
};

/** The sums over all deciders. */
interface Totals {
  add(decider: number, report: Report, onCallFinished: OnCallFinished): void;
  /** The decider has ended: its counts are kept; its cache, leases and what it held are gone. */
  ended(decider: number): void;
  /** Leased but unused hits. */
  leased(): number;
  /** The number of deciders with an open circuit, for each node of the store. */
  openCircuits(): ReadonlyMap<string, number>;
  load(): Load;
  /** What all processes of this instance use, this one included. */
  processes(): ProcessUse;
  /** Whether there is a decider, and every one can decide requests. */
  isReady(): boolean;
  /** The state of the store, as the decider sees it that reaches it least; undefined: counters are in memory. */
  store(): StoreFacts | undefined;
  /** Undefined: counters are not in the memory of deciders. */
  memory(): MemoryFacts | undefined;
  /** The sum of all caches of refusals; undefined: no decider has one. */
  cache(): DenyCacheState | undefined;
}

/** @param statistics  receives the counts of reports */
export function createTotals(statistics: Statistics): Totals {
  const states = new Map<number, Omit<Report, 'counted' | 'calls'>>();
  let ofEnded: DenyCacheCounts | undefined;
  let loadOfEnded = NO_LOAD;
  const all = () => [...states.values()];
  return {
    add(decider, { counted, calls, ...state }, onCallFinished) {
      statistics.merge(counted);
      states.set(decider, state);
      for (const { method, status, elapsedMs } of calls) for (const ms of elapsedMs) onCallFinished(method, status, ms);
    },
    ended(decider) {
      const state = states.get(decider);
      if (!state) return;
      states.delete(decider);
      loadOfEnded = addLoads(loadOfEnded, pastOf(state.load ?? NO_LOAD));
      const counts = state.cache?.counts;
      if (counts) ofEnded = ofEnded ? sum(ofEnded, counts) : counts;
    },
    leased: () => all().reduce((total, { leased }) => total + leased, 0),
    load: () => all().reduce((total, { load }) => addLoads(total, load ?? NO_LOAD), loadOfEnded),
    processes: () => all().reduce((total, { process }) => addUse(total, process), ownUse()),
    isReady: () => states.size > 0 && all().every(({ isReady }) => isReady),
    store() {
      const stores = all().flatMap(({ store }) => store ?? []);
      return stores.find(({ isUp }) => !isUp) ?? stores[0];
    },
    memory: () => all().find(({ memory }) => memory !== undefined)?.memory, // then there is one decider
    openCircuits: () => countOpen(all().map(({ circuits }) => circuits)),
    cache() {
      const caches = all().flatMap(({ cache }) => cache ?? []);
      const counts = [...(ofEnded ? [ofEnded] : []), ...caches.map((cache) => cache.counts)];
      if (counts.length === 0) return undefined;
      const size = caches.reduce((total, cache) => total + cache.size, 0);
      return { counts: counts.reduce(sum), size: () => size };
    },
  };
}

/** @param states  of the circuits of each process, by node */
function countOpen(states: readonly ReadonlyMap<string, BreakerState>[]): ReadonlyMap<string, number> {
  const open = new Map<string, number>();
  for (const ofProcess of states)
    for (const [node, state] of ofProcess) open.set(node, (open.get(node) ?? 0) + (state === 'closed' ? 0 : 1));
  return open;
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
  return { quotas: one && other ? sumQuotaCounts(one, other) : known };
}

function addSites(one: Load['sites'], other: Load['sites']): Pick<Load, 'sites'> {
  const known = one ?? other;
  if (!known) return {};
  return { sites: one && other ? sumSites(one, other) : known };
}

const sum = (one: DenyCacheCounts, other: DenyCacheCounts): DenyCacheCounts => ({
  lookups: one.lookups + other.lookups,
  hits: one.hits + other.hits,
  expired: one.expired + other.expired,
  evicted: one.evicted + other.evicted,
  overwritten: one.overwritten + other.overwritten,
});
