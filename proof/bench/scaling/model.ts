import { MAX_HOLDERS } from '../../../src/parts/quotas/shares.ts';
import { groupedCalls, leasedCalls } from './calls.ts';
import type { Costs } from './costs.ts';
import type { Planning, ScaledLoad, Switches } from './load.ts';

/** A part of an installation with a fixed bound. */
export interface BoundedPart {
  readonly name: string;
  /** In the unit of its name. */
  readonly needed: number;
  readonly available: number;
}

/** The resources that a load requires. */
export interface ScalingPlan {
  /** The instances of all sites and groups: processes of one core each. */
  readonly instances: number;
  /** The nodes of all sites and groups. Without a Cluster: one for each group, even if that is not enough. */
  readonly redisNodes: number;
  /** Decisions and reports of proxies. */
  readonly weirPerSecond: number;
  /** Calls to Redis per decision of Weir; a proxy's report counts as a decision. */
  readonly redisCalls: number;
  readonly weirUs: number;
  readonly redisUs: number;
  /** The part nearest to its bound, or furthest above it, comes first. */
  readonly bounds: readonly BoundedPart[];
}

/** The default of Weir's setting, Redis' `maxclients`, and the largest size for which Redis Cluster is specified. */
const MAX_CONNECTIONS = 50_000;
const MAX_REDIS_CLIENTS = 10_000;
const MAX_CLUSTER_NODES = 1_000;
/** The slots of a Cluster; Weir batches only operations of one slot. */
const SLOTS = 16_384;
/** An instance has one connection to each node for counters, and one for messages. */
const CONNECTIONS_PER_NODE = 2;
/** From docs/scaling.md: counters × bytes × 2. */
const MEMORY_FACTOR = 2;
/** Maximum size of a fleet in the model. */
const MAX_INSTANCES = 1_000;
/** The interval between a proxy's reports of a bucket. */
const REPORT_SECONDS = 5;
/** Maximum rounds of the search for the number of instances, on which the cost of a decision depends. */
const MAX_ROUNDS = 200;

/** One group; the groups of all sites are equal. */
interface Group extends ScaledLoad {
  readonly switches: Switches;
}

/** The smallest number of groups in a site for which one Redis each has enough CPU and memory. */
export function groupsFor(load: ScaledLoad, switches: Switches, costs: Costs, planning: Planning): number {
  for (let groups = 1; ; groups++) {
    const { bounds } = planFor(load, { ...switches, groups }, costs, planning);
    const isEnough = bounds.every((part) => !part.name.includes('of a Redis') || usedFraction(part) <= 1);
    if (isEnough || groups >= MAX_INSTANCES) return groups;
  }
}

/** Plans the machines for a load. Deterministic, without a clock. */
export function planFor(load: ScaledLoad, switches: Switches, costs: Costs, planning: Planning): ScalingPlan {
  const count = switches.sites * switches.groups;
  const group = divideLoad(load, switches);
  const instances = requiredInstances(group, costs, planning);
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
    redisCalls: cost.redisCalls,
    weirUs: cost.weirUs,
    redisUs: cost.redisUs,
    instances: instances * count,
    redisNodes: nodes * count,
    weirPerSecond: group.decisionsPerSecond * count,
    bounds: bounds.toSorted((one, other) => usedFraction(other) - usedFraction(one)),
  };
}

/** The cores of Redis for one hot key, which is on one node. */
const hotKeyCores = ({ decisionsPerSecond, hotShare, hotKeys }: Group, cost: DecisionCost): number =>
  ((decisionsPerSecond * hotShare) / hotKeys / 1e6) * cost.redisUsOfHotKey;

/** The used fraction of a part; above 1: it is not enough. */
export const usedFraction = ({ needed, available }: BoundedPart): number => needed / available;

/** The load of one group: sites divide proxies and the use of each key, groups divide keys. */
function divideLoad(load: ScaledLoad, switches: Switches): Group {
  const { sites, groups } = switches;
  const count = sites * groups;
  const perGroup = {
    ...load,
    switches,
    keys: load.keys / count,
    proxies: load.proxies / sites,
    hotKeys: load.hotKeys / groups,
    overKeys: load.overKeys / groups,
  };
  if (switches.quotaParts === 0) return { ...perGroup, decisionsPerSecond: load.decisionsPerSecond / count };
  const reports = (load.proxies * load.hotKeys) / REPORT_SECONDS;
  const decided = load.decisionsPerSecond * (1 - load.hotShare);
  const overShare = (load.decisionsPerSecond * load.overShare) / (decided + reports);
  return { ...perGroup, decisionsPerSecond: (decided + reports) / count, hotShare: 0, overShare };
}

/** The smallest number of instances for which one core each is enough. */
function requiredInstances(group: Group, costs: Costs, { utilization, ...planning }: Planning): number {
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

/** The cost of a decision if this number of instances share the load of a group. */
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
