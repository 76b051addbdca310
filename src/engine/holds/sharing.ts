import type { AnyLimit } from '../algorithms/limit.ts';
import { hashHolder, type ShareClaim } from './claim.ts';

/** What a rule gives to one child of a shared limit, or of a child with children. */
export interface ChildNumbers {
  /** The entry's key, for messages. */
  readonly key: string;
  /** Hits per window that no sibling can take from it; 0 for none. */
  readonly reserve: number;
  /** Its part of what is left, relative to its siblings; at least 1. */
  readonly weight: number;
  /** Maximum hits per window; 0 for no maximum of its own. */
  readonly ceiling: number;
  /** The sum of the reservations of its own children that rules name. Default: none. */
  readonly reserved?: number;
}

/** How children share a limit. */
export interface Sharing {
  /** The entry's key by whose values hits are shared; absent below the last level. */
  readonly by?: string;
  /** The children from the top to the one that hits of this rule belong to; empty for hits of no child. */
  readonly path: readonly ChildNumbers[];
  /** The sum of the reservations of the first level. Default: none. */
  readonly reserved?: number;
  /** Percentage that is kept for children that come next. Default: 5. */
  readonly spare?: number;
  /** Percentage of the limit that the hits may use: see `priorities`. Default: all of it, within the fair share. */
  readonly threshold?: number;
  /** The index of the child whose value is the priority, if a value is. */
  readonly thresholdAt?: number;
}

/** Names of priorities, and the part of the limit that hits may use, in percent. */
export const priorities: ReadonlyMap<string, number> = new Map([
  ['critical', 100],
  ['default', 85],
  ['sheddable', 60],
]);

/** The threshold of requests that state none of the priorities. */
const DEFAULT_THRESHOLD = 85;

/** The threshold of a written priority, from 1 to 100; undefined if it is none. */
export function readPriority(written: string): number | undefined {
  const named = priorities.get(written);
  if (named !== undefined) return named;
  const number = /^\d{1,3}$/.test(written) ? Number(written) : 0;
  return number >= 1 && number <= 100 ? number : undefined;
}

/** The threshold of a priority that a request states. */
export const statedThreshold = (stated: string): number => readPriority(stated) ?? DEFAULT_THRESHOLD;

/** The claim of hits on a shared limit. @param path  the entries that name the children, from the top */
export function claimShare(
  limit: AnyLimit & Partial<Sharing>,
  path: readonly { readonly value: string }[],
): ShareClaim {
  const { thresholdAt, threshold } = limit;
  const children: number[] = [];
  for (const { value } of path) children.push(hashHolder(`${children.at(-1) ?? ''}|${value}`));
  if (thresholdAt === undefined) return { children };
  const stated = statedThreshold(path[thresholdAt]?.value ?? '');
  return { children, threshold: Math.min(stated, threshold ?? stated) };
}
