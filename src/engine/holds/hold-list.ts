import type { State } from '../algorithms/limit.ts';

/*
 * Lists of holds. Twin of hold-list.lua. Each hold has `size` numbers, of which the first three are its holder, its
 * hits, and when it expires (ms since the epoch); sorted by expiry.
 */

/** Comes before the scripts of limits whose hits have holders. */
export const holdListScript = new URL('./hold-list.lua', import.meta.url);

/** The index of the first hold that expires after a time. @param first  index of the first hold */
export function firstAfter(atMs: number, holds: State, size: number, first = 0): number {
  let at = first;
  while (at < holds.length && (holds[at + 2] ?? 0) <= atMs) at += size;
  return at;
}

/** The index of the first hold of a holder; undefined if it has none. @param first  index of the first hold */
export function findHold(holder: number, holds: State, size: number, first = 0): number | undefined {
  for (let at = first; at < holds.length; at += size) if (holds[at] === holder) return at;
  return undefined;
}

/** Inserts after holds that expire earlier or at the same time. */
export function insert(holds: number[], hold: readonly [number, number, number, ...number[]]): void {
  let at = holds.length;
  while (at > 0 && (holds[at - hold.length + 2] ?? 0) > hold[2]) at -= hold.length;
  holds.splice(at, 0, ...hold);
}
