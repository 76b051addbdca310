import type { SiteReport } from '../algorithms/limit.ts';
import type { SiteShareLimit } from '../algorithms/site-share.ts';
import { baseOf, rateOf, SLOT_MS, tokenMsOf } from '../algorithms/site-share-state.ts';

/** What a site asks for beyond its demand: requests that come while it waits. */
const HEADROOM_PERCENT = 104;
/** A bucket asks for what it needs in so many slots. */
const AHEAD_SLOTS = 2;

/** What each of the other sites is asked for: a bucket has no room for all that all of them could lend. */
export const askOfEach = ({ of, sites }: SiteShareLimit, need: number): number =>
  of === 'token_bucket' ? Math.ceil(need / Math.max(sites - 1, 1)) : need;

/**
 * The hits that a site lacks: of a window until it ends, of a bucket until the exchange after the next.
 *
 * @param demand  hits in a slot
 */
export function needOf(limit: SiteShareLimit, { leftMs, room }: SiteReport, demand: number): number {
  if (limit.of === 'fixed_window') {
    const expected = Math.ceil((demand * Math.max(leftMs, 0) * HEADROOM_PERCENT) / (SLOT_MS * 100));
    return Math.max(Math.min(expected - room, limit.requestsPerUnit), 0);
  }
  const refilled = Math.floor((AHEAD_SLOTS * SLOT_MS * rateOf(limit)) / tokenMsOf(limit));
  const fits = baseOf(limit) - room;
  return Math.max(Math.min(AHEAD_SLOTS * demand - refilled - room, fits), 0);
}
