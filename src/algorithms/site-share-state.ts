import type { AnyLimit, State } from './limit.ts';

/** The numbers of a limit that a site's share depends on. */
export interface ShareNumbers extends AnyLimit {
  readonly of: 'fixed_window' | 'token_bucket';
  readonly burst: number;
  readonly sites: number;
  readonly site: number;
  /** Places of sites that an operator says are lost: the others divide their parts. Absent: none is. */
  readonly lost?: readonly number[];
  /** By how much all sites together may exceed the limit, in percent of it; 0: by nothing. */
  readonly maxErrorPercent: number;
}

/** Demand is measured over so long. */
export const SLOT_MS = 500;
/** What buckets lend is void after so long. */
export const EPOCH_MS = 60_000;
/** The clocks of two sites may be so far apart; further, nothing is taken. */
export const MAX_SKEW_MS = 1_000;

/** Numbers before the table, and of each site in the table: given to it, confirmed by it, taken from it. */
const HEAD = 7;
const ROW = 3;

/** What a site's counter holds. A step changes its own copy. */
export interface SiteShare {
  /** When the epoch began. */
  epochMs: number;
  /** Of a window: hits. Of a bucket: token-ms that were spent and not refilled. */
  used: number;
  /** Of a bucket: refilled at. */
  atMs: number;
  /** The start of the slot in which `offered` hits were requested; `earlier` hits were in the one before. */
  slotMs: number;
  offered: number;
  earlier: number;
  /** Of a bucket: tokens of the epoch before that may be in transit. */
  heldOver: number;
  /** Three numbers for each site, or none. */
  table: number[];
}

/** A site's place in the table, ready to be changed. */
export interface ShareRow {
  given: number;
  confirmed: number;
  taken: number;
}

/** What is divided among the sites: of a bucket its burst. */
const wholeOf = ({ of, requestsPerUnit, burst }: ShareNumbers): number =>
  of === 'token_bucket' ? burst : requestsPerUnit;

/** One of so many equal parts; what cannot be divided goes to the first ones. */
const equalPart = (total: number, parts: number, at: number): number =>
  Math.floor(total / parts) + (at < total % parts ? 1 : 0);

/** An equal part, with one of the parts of sites that are lost, which have none. */
function partOf(total: number, { sites, site, lost }: ShareNumbers): number {
  const own = equalPart(total, sites, site);
  if (!lost) return own;
  if (lost.includes(site)) return 0;
  const left = lost.reduce((sum, place) => sum + equalPart(total, sites, place), 0);
  return own + equalPart(left, sites - lost.length, site - lost.filter((place) => place < site).length);
}

/** Of a bucket, token-ms that are refilled in a millisecond. */
export const rateOf = ({ requestsPerUnit, sites, lost }: ShareNumbers): number =>
  lost ? Math.floor((requestsPerUnit * sites) / (sites - lost.length)) : requestsPerUnit;

/** The site's part of the limit. */
export const baseOf = (limit: ShareNumbers): number => partOf(wholeOf(limit), limit);

/** The hits by which all sites together may exceed the limit. */
export const errorOf = (limit: ShareNumbers): number => Math.floor((wholeOf(limit) * limit.maxErrorPercent) / 100);

/** The site's part of these: what it may admit before others have lent it. */
export const advanceOf = (limit: ShareNumbers): number => partOf(errorOf(limit), limit);

/** One token in token-ms: the rate of a site is an exact part of the limit's, since its window is longer. */
export const tokenMsOf = ({ windowMs, sites }: ShareNumbers): number => windowMs * sites;

export const epochMsOf = ({ of, windowMs }: ShareNumbers): number => (of === 'token_bucket' ? EPOCH_MS : windowMs);

/** Requested in a slot of late, whether it passed or not. */
export const demandOf = ({ offered, earlier }: SiteShare): number => Math.max(offered, earlier);

export const isMoved = ({ table }: SiteShare): boolean => table.some((number) => number > 0);

/** Lent in this epoch, and not known to be taken. */
export function inTransit({ table }: SiteShare): number {
  let sum = 0;
  for (let at = 0; at < table.length; at += ROW) sum += Math.max((table[at] ?? 0) - (table[at + 1] ?? 0), 0);
  return sum;
}

/** Whole hits that the site may still admit; below 0 where the limit has become lower. */
export function roomOf(limit: ShareNumbers, { used, table }: SiteShare): number {
  const base = baseOf(limit);
  if (limit.of === 'token_bucket') return Math.floor((base * tokenMsOf(limit) - used) / tokenMsOf(limit));
  let moved = 0;
  for (let at = 0; at < table.length; at += ROW) moved += (table[at + 2] ?? 0) - (table[at] ?? 0);
  return base + moved - used;
}

/** The site's row of the table; changes go into the table. */
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

/** What a state says at a moment: windows begin, buckets are refilled, demand is forgotten. */
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

/** Tokens in transit are not refilled: of an earlier epoch until no site, however its clock goes, can take them. */
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

/** The state of the counter; a table without numbers is left out. */
export function stateOf(share: SiteShare): State {
  const { epochMs, used, atMs, slotMs, offered, earlier, heldOver, table } = share;
  return [epochMs, used, atMs, slotMs, offered, earlier, heldOver, ...(isMoved(share) ? table : [])];
}
