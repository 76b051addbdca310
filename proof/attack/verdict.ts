import { MIB } from '../tables/figures.ts';
import type { Sight } from './bystander.ts';
import { KEPT_TOLERANCE_BYTES, type Result } from './run-attack.ts';

/** Maximum that an attack may add to the service's heap and external memory, beside the budgets that it may fill. */
const MAX_GROWTH_BYTES = 64 * MIB;
/** Maximum time that another client may wait, unless MAX_WAIT_RATIO permits more. */
const MAX_WAIT_MS = 250;
/** Maximum wait as a multiple of the wait caused by as many valid bytes. */
const MAX_WAIT_RATIO = 2;
/** Minimum fraction of its answers during as many plain descriptors that another client must keep. */
const MIN_ANSWERED_FRACTION = 0.8;
/** Resident memory permitted beyond the heap limit, for code, young generation, buffers and stacks. */
const RSS_BEYOND_HEAP_BYTES = 256 * MIB;

/**
 * Memory budgets that callers may fill and that belong to no connection, so that they stay in use afterwards. Counters
 * get a quarter of V8's heap limit, which is 304 MiB with --max-old-space-size=256.
 */
export const BUDGETS = { counters: 76 * MIB, statistics: 16 * MIB, shares: 20 * MIB } as const;

/** The reasons why the service failed; empty if it did not. */
export function findProblems(result: Result, heapMib: number): readonly string[] {
  const { end, growthBytes, keptBytes, peakRssBytes, bystander, valid, faults } = result;
  const maxWaitMs = Math.max(MAX_WAIT_MS, MAX_WAIT_RATIO * (valid?.longestWaitMs ?? 0));
  const failed = sumFailures(bystander.failures);
  return [
    ...(end === undefined ? [] : ['ends']),
    ...(growthBytes < MAX_GROWTH_BYTES + result.mayKeepBytes ? [] : ['grows']),
    ...(bystander.longestWaitMs < maxWaitMs ? [] : ['delays']),
    ...(keptBytes === undefined || keptBytes <= KEPT_TOLERANCE_BYTES + result.mayKeepBytes ? [] : ['keeps']),
    ...(peakRssBytes < heapMib * MIB + RSS_BEYOND_HEAP_BYTES ? [] : ['RSS']),
    ...(result.comparesAnswers && valid && answeredShare(bystander) < MIN_ANSWERED_FRACTION * answeredShare(valid)
      ? ['starves others']
      : []),
    ...(result.comparesAnswers || failed <= sumFailures(valid?.failures ?? {}) ? [] : ['fails others']),
    ...faults,
  ];
}

/** The share of its calls that were answered with a decision. */
const answeredShare = ({ answered, calls }: Sight): number => (calls > 0 ? answered / calls : 1);

export const sumFailures = (failures: Readonly<Record<string, number>>): number =>
  Object.values(failures).reduce((sum, count) => sum + count, 0);
