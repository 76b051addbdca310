import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { every } from '../../base/clock.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import type { View } from '../../operate/admin/scope.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { Gatherer } from '../../operate/status/gatherer.ts';
import { countOutcomes } from '../../operate/status/service-series.ts';
import type { OpenOperatorPart, OperatorPart } from '../../serve/control/part.ts';
import { type Attention, describeAttention } from './attention.ts';
import { type Counted, Incidents, type KeptIncident, SLOW_STORE_MS } from './incidents.ts';
import { Heartbeat, type InstanceReport } from './instances.ts';
import { statusOperations } from './operations.ts';

/** The status, as a part that extends it uses it. */
export interface StatusPart extends OperatorPart {
  readonly attention: (isFor: View) => Attention;
}

/** Says whether the service works, what needs attention, and which instances there are. */
export const openStatus: OpenOperatorPart = (
  options,
  settings,
  { clock, records, gathered, kept, keep },
): StatusPart => {
  const known = kept.get('status') as readonly KeptIncident[] | undefined; // by the same part, as below
  const incidents = new Incidents(known, (all) => keep('status', all));
  incidents.begin(countSoFar(options.statistics), gathered.startedAtMs);
  gathered.onSecond((nowMs) => gatherIncidents(incidents, options, gathered, nowMs));
  const facts = () => reportInstance(options, gathered);
  const hasOthers = settings.counters.store.kind === 'redis';
  const heartbeat = hasOthers ? new Heartbeat({ id: randomUUID(), records, clock, every, facts }) : undefined;
  const attention = (isFor: View): Attention => describeAttention(options, gathered, incidents, isFor);
  const self = () => ({ ...facts(), atMs: clock(), isThis: true });
  return {
    attention,
    operations: statusOperations({ ...options, attention, startedAtMs: gathered.startedAtMs, heartbeat, self }),
    close: () => heartbeat?.close(),
  };
};

function gatherIncidents(incidents: Incidents, options: AdminOptions, gathered: Gatherer, nowMs: number): void {
  const state = options.store();
  incidents.gather({
    nowMs,
    outcomes: gathered.service.last,
    ...countSoFar(options.statistics),
    isStoreAway: state?.isUp === false || Math.max(0, ...options.openCircuits().values()) > 0,
    lastSuccessAtMs: state?.lastSuccessAtMs,
    isStoreSlow: gathered.latency.isSlowerThan(SLOW_STORE_MS),
    restarts: options.restarts(),
    hasNewestRules: options.sourced.inForce()?.isNewest ?? true,
  });
}

const countSoFar = (statistics: Statistics): Counted => ({
  totals: countOutcomes(statistics),
  undecidedBy: { ...statistics.undecided },
});

function reportInstance({ settings, sourced, version }: AdminOptions, gathered: Gatherer): InstanceReport {
  const { passed, refused, degraded } = gathered.service.last;
  const hash = sourced.inForce()?.hash;
  return {
    name: hostname(),
    version,
    workers: settings.workers,
    startedAtMs: gathered.startedAtMs,
    ...(hash !== undefined && { rules: hash }),
    decisionsPerSecond: passed + refused + degraded,
    refusedPerSecond: refused,
  };
}
