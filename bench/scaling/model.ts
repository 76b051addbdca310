import { MAX_HOLDERS } from '../../src/shares/shares.ts';
import { groupedCalls, leasedCalls } from './calls.ts';
import type { Costs } from './costs.ts';
import type { Planning, ScaledLoad, Switches } from './load.ts';

/** A part that an installation of this shape cannot have more of. */
export interface BoundedPart {
  readonly name: string;
  /** In the unit of its name. */
  readonly needed: number;
  readonly available: number;
}

/** What a load takes. */
export interface ScalingPlan {
  /** Of all sites and groups: processes of one core each. */
  readonly instances: number;
  /** Of all sites and groups. One for each group without a Cluster, whether it is enough or not. */
  readonly redisNodes: number;
  /** Decisions and reports of proxies. */
  readonly weirPerSecond: number;
  /** Per decision of Weir; a report of a proxy counts as one. */
  readonly redisCalls: number;
  readonly weirUs: number;
  readonly redisUs: number;
  /** The one that is nearest to its bound, or furthest above it, is first. */
  readonly bounds: readonly BoundedPart[];
}

/** The setting's default, Redis's `maxclients`, and the size up to which Redis Cluster is specified. */
const MAX_CONNECTIONS = 50_000;
const MAX_REDIS_CLIENTS = 10_000;
const MAX_CLUSTER_NODES = 1_000;
/** A Cluster's: Weir puts together only calls for one slot. */
const SLOTS = 16_384;
/** An instance has one connection to each node for counters, and one for messages. */
const CONNECTIONS_PER_NODE = 2;
/** As docs/sizing.md plans: counters × bytes × 2. */
const MEMORY_FACTOR = 2;
/** The fleet that the model is about. */
const MAX_INSTANCES = 1_000;
/** A proxy reports each bucket so often. */
const REPORT_SECONDS = 5;
/** Rounds of the search for the number of instances: what a decision costs depends on it. */
const MAX_ROUNDS = 200;

/** One of the equal groups of all sites. */
interface Group extends ScaledLoad {
  readonly switches: Switches;
}

/** The fewest groups of a site, each with one Redis that has enough of a core and of memory. */
export function groupsFor(load: ScaledLoad, switches: Switches, costs: Costs, planning: Planning): number {
  for (let groups = 1; ; groups++) {
    const { bounds } = planFor(load, { ...switches, groups }, costs, planning);
    const isEnough = bounds.every((part) => !part.name.includes('of a Redis') || usedOf(part) <= 1);
    if (isEnough || groups >= MAX_INSTANCES) return groups;
  }
}

/** The machines of a load. Deterministic, without a clock. */
export function planFor(load: ScaledLoad, switches: Switches, costs: Costs, planning: Planning): ScalingPlan {
  const count = switches.sites * switches.groups;
  const group = groupOf(load, switches);
  const instances = instancesOf(group, costs, planning);
  const cost = costAt(group, instances, costs, planning);
  const memoryBytes = group.keys * costs.redisBytesPerCounter * MEMORY_FACTOR;
  const redisCores = (group.decisionsPerSecond * cost.redisUs) / 1e6 / planning.utilization;
  const memoryNodes = memoryBytes / planning.redisNodeBytes;
  const nodes = switches.cluster ? Math.ceil(Math.max(redisCores, memoryNodes, 1)) : 1;
  const redisBound = switches.cluster ? MAX_CLUSTER_NODES : 1;
  const bounds: readonly BoundedPart[] = [
    { name: 'cores of a Redis', needed: redisCores, available: redisBound },
    { name: 'memory of a Redis', needed: memoryNodes, available: redisBound },
    { name: 'instances', needed: instances * count, available: MAX_INSTANCES },
    {
      name: 'connections of an instance',
      needed: (group.proxies * load.threadsPerProxy) / instances,
      available: MAX_CONNECTIONS,
    },
    { name: 'clients of a Redis', needed: instances * CONNECTIONS_PER_NODE, available: MAX_REDIS_CLIENTS },
    { name: 'a core of a Redis for one key', needed: hotKeyCores(group, cost) / planning.utilization, available: 1 },
    ...(switches.quotaParts > 0
      ? [{ name: 'proxies of a quota', needed: group.proxies / switches.quotaParts, available: MAX_HOLDERS }]
      : []),
  ];
  return {
    ...{ redisCalls: cost.redisCalls, weirUs: cost.weirUs, redisUs: cost.redisUs },
    instances: instances * count,
    redisNodes: nodes * count,
    weirPerSecond: group.decisionsPerSecond * count,
    bounds: bounds.toSorted((one, other) => usedOf(other) - usedOf(one)),
  };
}

/** What one hot key takes, which is on one node. */
const hotKeyCores = ({ decisionsPerSecond, hotShare, hotKeys }: Group, cost: DecisionCost): number =>
  ((decisionsPerSecond * hotShare) / hotKeys / 1e6) * cost.redisUsOfHotKey;

/** Above 1: it is not enough. */
export const usedOf = ({ needed, available }: BoundedPart): number => needed / available;

/** The load of one group: sites divide proxies and the use of each key, groups divide keys. */
function groupOf(load: ScaledLoad, switches: Switches): Group {
  const { sites, groups } = switches;
  const count = sites * groups;
  const usual = {
    ...{ ...load, switches, keys: load.keys / count, proxies: load.proxies / sites },
    ...{ hotKeys: load.hotKeys / groups, overKeys: load.overKeys / groups },
  };
  if (switches.quotaParts === 0) return { ...usual, decisionsPerSecond: load.decisionsPerSecond / count };
  const reports = (load.proxies * load.hotKeys) / REPORT_SECONDS;
  const decided = load.decisionsPerSecond * (1 - load.hotShare);
  const overShare = (load.decisionsPerSecond * load.overShare) / (decided + reports);
  return { ...usual, decisionsPerSecond: (decided + reports) / count, hotShare: 0, overShare };
}

/** The fewest instances at which each has enough of a core. */
function instancesOf(group: Group, costs: Costs, { utilization, ...planning }: Planning): number {
  const coresAt = (instances: number): number =>
    (group.decisionsPerSecond * costAt(group, instances, costs, { utilization, ...planning }).weirUs) /
    1e6 /
    utilization;
  let instances = 1;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const needed = Math.max(Math.ceil(coresAt(instances)), 1);
    if (needed <= instances) break;
    instances = needed;
  }
  return instances;
}

interface DecisionCost extends Pick<ScalingPlan, 'redisCalls' | 'weirUs' | 'redisUs'> {
  readonly redisUsOfHotKey: number;
}

/** What a decision costs where so many instances share the load of a group. */
function costAt(group: Group, instances: number, costs: Costs, { gatherMs }: Planning): DecisionCost {
  const { decisionsPerSecond, switches, hotShare, overShare } = group;
  const perKey = (share: number, keys: number): number => (decisionsPerSecond * share) / keys / instances;
  const refused = switches.denyCache ? groupedCalls(perKey(overShare, group.overKeys), group.refusalMs) : 1;
  const leased = switches.leases ? leasedCalls(perKey(hotShare, group.hotKeys)) : 1;
  const inRedis = 1 - hotShare - overShare + hotShare * leased + overShare * refused;
  const toRedisPerSecond = (decisionsPerSecond * inRedis) / instances;
  const calls = groupedCalls(toRedisPerSecond / (switches.cluster ? SLOTS : 1), gatherMs);
  const reads = groupedCalls(decisionsPerSecond / (group.proxies * group.threadsPerProxy), gatherMs);
  return {
    redisCalls: inRedis * calls,
    weirUs:
      inRedis * (costs.weirUs + costs.weirCallUs * calls) +
      hotShare * (1 - leased) * costs.weirLocalUs +
      overShare * (1 - refused) * costs.weirRefusalUs +
      costs.weirReadUs * reads,
    redisUs: inRedis * (costs.redisCounterUs + costs.redisCallUs * calls),
    redisUsOfHotKey: leased * (costs.redisCounterUs + costs.redisCallUs * calls),
  };
}
