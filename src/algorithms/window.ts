import type { AnyLimit } from './limit.ts';

/** The capacity of algorithms that count hits by the window. */
export const windowCapacity = ({ requestsPerUnit }: AnyLimit): number => requestsPerUnit;

/** Hits that fit into an unspent window, the soft ones included. */
export const windowSize = ({ requestsPerUnit, soft }: AnyLimit): number => requestsPerUnit + soft;

/** For algorithms that remember a hit for two windows at most. */
export const twoWindowsMs = ({ windowMs }: AnyLimit): number => 2 * windowMs;

/** What part of a window's limit one of several processes may count: whole hits, rounded down. */
export function divideWindow<L extends AnyLimit>(limit: L, by: number): L {
  return { ...limit, requestsPerUnit: Math.floor(limit.requestsPerUnit / by), soft: Math.floor(limit.soft / by) };
}
