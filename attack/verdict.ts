import { KEPT_TOLERANCE_BYTES, type Result } from './run-attack.ts';
import { MIB } from './units.ts';

/** How much more heap and external memory an attack may make the service hold. */
export const MAX_GROWTH_BYTES = 64 * MIB;
/** How long another client may wait, */
export const MAX_WAIT_MS = 250;
/** or this many times as long as because of as many valid bytes. */
export const MAX_WAIT_RATIO = 2;
/** Resident memory beyond the limit of the heap: code, young generation, buffers, stacks. */
export const RSS_BEYOND_HEAP_BYTES = 256 * MIB;

/** Memory that callers may fill and that belongs to no connection, so that it stays when theirs are gone. */
export const BUDGETS = { counters: 32 * MIB, statistics: 16 * MIB, shares: 20 * MIB } as const;

/** Why the service has failed, in words; empty: it has not. */
export function problemsOf(result: Result, heapMib: number): readonly string[] {
  const { end, growthBytes, keptBytes, peakRssBytes, bystander, valid, faults } = result;
  const maxWaitMs = Math.max(MAX_WAIT_MS, MAX_WAIT_RATIO * (valid?.longestWaitMs ?? 0));
  const failed = failuresOf(bystander.failures);
  return [
    ...(end === undefined ? [] : ['ends']),
    ...(growthBytes < MAX_GROWTH_BYTES ? [] : ['grows']),
    ...(bystander.longestWaitMs < maxWaitMs ? [] : ['delays']),
    ...(keptBytes === undefined || keptBytes <= KEPT_TOLERANCE_BYTES + result.mayKeepBytes ? [] : ['keeps']),
    ...(peakRssBytes < heapMib * MIB + RSS_BEYOND_HEAP_BYTES ? [] : ['RSS']),
    ...(failed <= failuresOf(valid?.failures ?? {}) ? [] : ['fails others']),
    ...faults,
  ];
}

export const failuresOf = (failures: Readonly<Record<string, number>>): number =>
  Object.values(failures).reduce((sum, count) => sum + count, 0);
