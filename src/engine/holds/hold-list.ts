import type { Opened } from '../algorithms/stepped.ts';
import { removeAt } from '../lua/lists.ts';

/*
 * Lists of holds. Each hold has `size` numbers, of which the first three are its holder, its hits, and when it expires
 * (ms since the epoch); sorted by expiry.
 */

/** A list of holds that several steps change in place. Those before the index `live` do not count. */
export interface HoldList extends Opened {
  live: number;
  /** The sum of the slots that count. */
  held: number;
  /** The number of searches for a holder. */
  searches: number;
  /** The holders that have been seen: from the third search, only these are searched for. */
  seen?: Record<number, boolean>;
}

const SEARCHES_WITHOUT_SEEN = 2;

/** The index of a holder's first hold; -1 if it has none. */
export function searchHold(holds: HoldList, size: number, holder: number): number {
  const length = holds.length;
  holds.searches++;
  if (holds.searches > SEARCHES_WITHOUT_SEEN && holds.seen === undefined) {
    const seen: Record<number, boolean> = {};
    for (let at = holds.live; at < length; at += size) seen[holds[at] ?? 0] = true;
    holds.seen = seen;
  }
  if (holds.seen !== undefined && holds.seen[holder] !== true) return -1;
  for (let at = holds.live; at < length; at += size) {
    if (holds[at] === holder) return at;
  }
  return -1;
}

/** Removes the hold at an index: the fewer of those before and after it move. Those that do not count are dropped. */
export function removeHold(holds: HoldList, size: number, place: number): void {
  const live = holds.live;
  if (place - live < holds.length - place) {
    for (let at = place - 1; at >= live; at--) holds[at + size] = holds[at] ?? 0;
    holds.live = live + size;
    holds.dropped = live + size;
  } else removeAt(holds, place, size);
}

/** Inserts after holds that expire earlier or at the same time. @returns the index */
export function insertHold(holds: HoldList, size: number, holder: number, hits: number, untilMs: number): number {
  let place = holds.length;
  while (place > holds.live && (holds[place - size + 2] ?? 0) > untilMs) {
    const to = place;
    for (let at = place - size; at < to; at++) holds[at + size] = holds[at] ?? 0;
    place -= size;
  }
  holds[place] = holder;
  holds[place + 1] = hits;
  holds[place + 2] = untilMs;
  if (holds.seen !== undefined) holds.seen[holder] = true;
  return place;
}
