import type { Costs } from './costs.ts';
import { nothingOn, type Planning, type ScaledLoad, type Switches } from './load.ts';
import { groupsFor, planFor, type ScalingPlan, usedFraction } from './model.ts';

/** A configuration for a load, and its plan. */
interface ScalingStep {
  readonly name: string;
  readonly switches: Switches;
  readonly plan: ScalingPlan;
}

const SITES = 4;
/** The number of proxies for each rule with quotas: slightly below the maximum of a quota. */
const PROXIES_PER_QUOTA = 250;

/** Configurations, the simplest first. Groups are as few as are enough, with one Redis each. */
export function stepsFor(load: ScaledLoad, costs: Costs, planning: Planning): readonly ScalingStep[] {
  const step = (name: string, changes: Partial<Switches>): ScalingStep => {
    const switches = { ...nothingOn, ...changes };
    return { name, switches, plan: planFor(load, switches, costs, planning) };
  };
  const grouped = (name: string, changes: Partial<Switches>): ScalingStep => {
    const groups = groupsFor(load, { ...nothingOn, ...changes }, costs, planning);
    return step(`${name} ${groups}`, { ...changes, groups });
  };
  const local = { denyCache: true, leases: true };
  const quotas = { denyCache: true, quotaParts: Math.ceil(load.proxies / PROXIES_PER_QUOTA) };
  return [
    step('one Redis', {}),
    step('deny cache', { denyCache: true }),
    step('deny cache, leases', local),
    step('deny cache, leases, Cluster', { ...local, cluster: true }),
    grouped('deny cache, leases, groups:', local),
    grouped(`deny cache, leases, ${SITES} sites, groups at each:`, { ...local, sites: SITES }),
    grouped(`deny cache, RLQS, ${SITES} sites, groups at each:`, { ...quotas, sites: SITES }),
  ];
}

/** Whether no part is used beyond its bound. */
export const isEnough = ({ plan }: ScalingStep): boolean => plan.bounds.every((part) => usedFraction(part) <= 1);

/** The load scaled to this number of decisions per second, with keys and proxies in proportion. */
export function atSize(load: ScaledLoad, decisionsPerSecond: number): ScaledLoad {
  const factor = decisionsPerSecond / load.decisionsPerSecond;
  return { ...load, decisionsPerSecond, keys: load.keys * factor, proxies: Math.max(load.proxies * factor, 1) };
}

const SMALLEST_SIZE = 1e3;
/** Beyond this, a part counts as never full. */
export const LARGEST_SIZE = 1e9;
/** Bisections of the logarithm of the size: far more precise than the printed size. */
const ROUNDS = 40;

/** The size at which a part is full; undefined if it is above the largest. */
export function fullAt(
  partName: string,
  switches: Switches,
  load: ScaledLoad,
  ...[costs, planning]: readonly [Costs, Planning]
): number | undefined {
  const isFull = (size: number): boolean => {
    const { bounds } = planFor(atSize(load, size), switches, costs, planning);
    return bounds.some((part) => part.name === partName && usedFraction(part) > 1);
  };
  if (!isFull(LARGEST_SIZE)) return undefined;
  let [low, high] = [Math.log(SMALLEST_SIZE), Math.log(LARGEST_SIZE)];
  for (let round = 0; round < ROUNDS; round++) {
    const middle = (low + high) / 2;
    if (isFull(Math.exp(middle))) high = middle;
    else low = middle;
  }
  return Math.exp(high);
}
