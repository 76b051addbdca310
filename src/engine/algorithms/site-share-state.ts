import type { AnyLimit, State } from './limit.ts';

/** The numbers of a limit that determine a site's share. */
interface ShareNumbers extends AnyLimit {
  readonly of: 'fixed_window' | 'token_bucket';
  readonly burst: number;
  readonly sites: number;
  readonly site: number;
  /** Indices of sites that an operator declared lost, whose parts the others divide. Absent: none. */
  readonly lost?: readonly number[];
  /** By how much all sites together may exceed the limit, in percent of it; 0: not at all. */
  readonly maxErrorPercent: number;
}

/** The time over which demand is measured. */
export const SLOT_MS = 500;
/** The time after which tokens lent from a bucket are void. */
export const EPOCH_MS = 60_000;
/** The largest difference between the clocks of two sites; beyond it, nothing is taken. */
export const MAX_SKEW_MS = 1_000;

/** Numbers before the table, and numbers of each site in the table: given to it, confirmed by it, taken from it. */
const HEAD = 7;
const ROW = 3;

/** The state of a site's counter. A step modifies its own copy. */
export interface SiteShare {
  /** When the epoch began. */
  epochMs: number;
  /** For a window: hits. For a bucket: token-ms that were spent and not refilled. */
  used: number;
  /** For a bucket: the time of the last refill. */
  atMs: number;
  /** The start of the slot in which `offered` hits were requested; `earlier` is the number in the slot before. */
  slotMs: number;
  offered: number;
  earlier: number;
  /** For a bucket: tokens of the previous epoch that may be in transit. */
  heldOver: number;
  /** Three numbers for each site, or none. */
  table: number[];
}

/** A site's row in the table, which can be modified. */
interface ShareRow {
  given: number;
  confirmed: number;
  taken: number;
}

/** The hits that are divided among the sites: for a bucket its burst. */
const wholeOf = ({ of, requestsPerUnit, burst }: ShareNumbers): number =>
  of === 'token_bucket' ? burst : requestsPerUnit;

/** One of several equal parts; the first parts share the remainder. */
const equalPart = (total: number, parts: number, at: number): number =>
  Math.floor(total / parts) + (at < total % parts ? 1 : 0);

/** An equal part, plus one of the parts of lost sites, which have none. */
function partOf(total: number, { sites, site, lost }: ShareNumbers): number {
  const own = equalPart(total, sites, site);
  if (!lost) return own;
  if (lost.includes(site)) return 0;
  const left = lost.reduce((sum, place) => sum + equalPart(total, sites, place), 0);
  return own + equalPart(left, sites - lost.length, site - lost.filter((place) => place < site).length);
}

/** For a bucket, the token-ms that are refilled per millisecond. */
export const rateOf = ({ requestsPerUnit, sites, lost }: ShareNumbers): number =>
  lost ? Math.floor((requestsPerUnit * sites) / (sites - lost.length)) : requestsPerUnit;

/** The site's part of the limit. */
export const baseOf = (limit: ShareNumbers): number => partOf(wholeOf(limit), limit);

/** The hits by which all sites together may exceed the limit. */
export const errorOf = (limit: ShareNumbers): number => Math.floor((wholeOf(limit) * limit.maxErrorPercent) / 100);

/** The site's part of `errorOf`: the hits that it may admit before others have lent them. */
export const advanceOf = (limit: ShareNumbers): number => partOf(errorOf(limit), limit);

/** One token in token-ms. A site has a longer window, so that its rate is an exact part of the limit's. */
export const tokenMsOf = ({ windowMs, sites }: ShareNumbers): number => windowMs * sites;

export const epochMsOf = ({ of, windowMs }: ShareNumbers): number => (of === 'token_bucket' ? EPOCH_MS : windowMs);

/** Hits requested per slot recently, whether they passed or not. */
export const demandOf = ({ offered, earlier }: SiteShare): number => Math.max(offered, earlier);

export const isMoved = ({ table }: SiteShare): boolean => table.some((number) => number > 0);

/** Tokens lent in this epoch that are not known to be taken. */
export function inTransit({ table }: SiteShare): number {
  let sum = 0;
  for (let at = 0; at < table.length; at += ROW) sum += Math.max((table[at] ?? 0) - (table[at + 1] ?? 0), 0);
  return sum;
}

/** Hits that the site may still admit; negative if the limit was lowered. */
export function roomOf(limit: ShareNumbers, { used, table }: SiteShare): number {
  const base = baseOf(limit);
  if (limit.of === 'token_bucket') return Math.floor((base * tokenMsOf(limit) - used) / tokenMsOf(limit));
  let moved = 0;
  for (let at = 0; at < table.length; at += ROW) moved += (table[at + 2] ?? 0) - (table[at] ?? 0);
  return base + moved - used;
}

/** The site's row of the table; writes go to the table. */
export function rowAt(limit: ShareNumbers, { table }: SiteShare, peer: number): ShareRow {
  while (table.length < ROW * limit.sites) table.push(0);
  const at = ROW * peer;
  const cell = (place: number) => ({
    get: (): number => table[at + place] ?? 0,
    set: (number: number) => {
      table[at + place] = number;
    },
  });
  const row: ShareRow = { given: 0, confirmed: 0, taken: 0 };
  return Object.defineProperties(row, { given: cell(0), confirmed: cell(1), taken: cell(2) });
}

/** The state as of a time: windows begin, buckets are refilled, demand is forgotten. */
export function openShare(limit: ShareNumbers, state: State | undefined, nowMs: number): SiteShare {
  const startMs = nowMs - (nowMs % epochMsOf(limit));
  const slotMs = nowMs - (nowMs % SLOT_MS);
  if (!state || state.length < HEAD)
    return { epochMs: startMs, used: 0, atMs: nowMs, slotMs, offered: 0, earlier: 0, heldOver: 0, table: [] };
  const [epochMs = 0, used = 0, atMs = 0, knownSlotMs = 0, offered = 0, earlier = 0, heldOver = 0] = state;
  const share = { epochMs, used, atMs, slotMs: knownSlotMs, offered, earlier, heldOver, table: state.slice(HEAD) };
  if (slotMs > knownSlotMs) {
    share.earlier = slotMs === knownSlotMs + SLOT_MS ? offered : 0;
    share.offered = 0;
    share.slotMs = slotMs;
  }
  if (limit.of === 'token_bucket') refill(limit, share, nowMs, startMs);
  else if (startMs > epochMs) {
    share.epochMs = startMs;
    share.used = 0;
    share.table = [];
  }
  return share;
}

/**
 * Refills all but tokens in transit. Those of an earlier epoch remain until no site can take them, whatever its clock.
 */
function refill(limit: ShareNumbers, share: SiteShare, nowMs: number, startMs: number): void {
  refillTo(limit, share, Math.min(nowMs, share.epochMs + MAX_SKEW_MS), inTransit(share) + share.heldOver);
  if (startMs > share.epochMs) {
    const endMs = share.epochMs + EPOCH_MS;
    refillTo(limit, share, Math.min(nowMs, endMs), inTransit(share));
    share.heldOver = inTransit(share);
    share.table = [];
    refillTo(limit, share, Math.min(nowMs, endMs + MAX_SKEW_MS), share.heldOver);
    if (startMs > endMs) share.heldOver = 0;
    share.epochMs = startMs;
  }
  if (nowMs >= share.epochMs + MAX_SKEW_MS) share.heldOver = 0;
  refillTo(limit, share, nowMs, inTransit(share) + share.heldOver);
}

function refillTo(limit: ShareNumbers, share: SiteShare, untilMs: number, keptTokens: number): void {
  if (untilMs <= share.atMs) return;
  const left = share.used - (untilMs - share.atMs) * rateOf(limit);
  share.used = Math.max(left, keptTokens * tokenMsOf(limit));
  share.atMs = untilMs;
}

/** The state of the counter; an empty table is left out. */
export function stateOf(share: SiteShare): State {
  const { epochMs, used, atMs, slotMs, offered, earlier, heldOver, table } = share;
  return [epochMs, used, atMs, slotMs, offered, earlier, heldOver, ...(isMoved(share) ? table : [])];
}
