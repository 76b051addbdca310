import type { SiteReport } from '../../engine/algorithms/limit.ts';
import type { SiteShareLimit } from '../../engine/algorithms/site-share.ts';
import { baseOf, rateOf, SLOT_MS, tokenMsOf } from '../../engine/algorithms/site-share-state.ts';

/** The percentage of its demand that a site requests: above 100, for requests that arrive while it waits. */
const HEADROOM_PERCENT = 104;
/** The number of slots that a bucket requests tokens for. */
const AHEAD_SLOTS = 2;

/** The hits requested from each other site: a bucket has no room for all that they could lend together. */
export const askOfEach = ({ of, sites }: SiteShareLimit, need: number): number =>
  of === 'token_bucket' ? Math.ceil(need / Math.max(sites - 1, 1)) : need;

/**
 * The hits that a site lacks: in a window until it ends, in a bucket until the exchange after the next.
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
