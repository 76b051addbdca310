import { describeBucket } from '../../engine/algorithms/bucket.ts';
import {
  type AnyLimit,
  type Charge,
  hitsToFit,
  MAX_COUNT,
  NEVER_MS,
  type State,
  type Step,
  takenBy,
  unitMs,
} from '../../engine/algorithms/limit.ts';
import { stepped } from '../../engine/algorithms/stepped.ts';
import type { Claim, SiteSplit } from '../../engine/holds/claim.ts';
import type { Counting } from '../../engine/holds/counting.ts';
import type { SiteReport } from '../../engine/holds/reports.ts';
import { compiled } from '../../engine/lua/compiled.ts';
import { isBucket, siteAdvance, siteBase, siteRate, siteTokenMs } from './site-part.ts';

/** The algorithms whose limits sites can share. */
export const sharedAlgorithms = ['fixed_window', 'token_bucket'] as const;

/** The values of a rule's `mode`: whether sites may exceed a limit by a declared error. */
export const siteModes = ['escrow', 'optimistic'] as const;

/** One site's part of a limit, which is counted in the site's store. */
export interface SiteShareLimit extends AnyLimit, Omit<SiteSplit, 'group'> {
  readonly algorithm: 'site_share';
  /** The rule's algorithm; `requestsPerUnit` and `burst` are those of all sites together. */
  readonly of: (typeof sharedAlgorithms)[number];
  /** For a bucket; for a window equal to `requestsPerUnit`. */
  readonly burst: number;
  /** Percentage by which all sites together may exceed the limit; 0 for `mode: escrow`. */
  readonly maxErrorPercent: number;
}

/** Whether the limit is one site's part of another. */
export const isSiteShare = (limit: AnyLimit): limit is SiteShareLimit => 'sites' in limit;

/** The time over which demand is measured. */
export const SLOT_MS = 500;
/** The time after which tokens lent from a bucket are void. */
const EPOCH_MS = 60_000;
/** Maximum difference between the clocks of two sites; beyond it, nothing is taken. */
export const MAX_SKEW_MS = 1_000;
/** An idle site keeps this part of its base, so that its first requests pass. */
const FLOOR_PART = 16;
/** A bucket keeps, or requests, the demand of its site in this many slots, less what is refilled meanwhile. */
const AHEAD_SLOTS = 2;

/** Numbers before the table, and numbers of each site in the table: given to it, confirmed by it, taken from it. */
const HEAD = 7;
const ROW = 3;

/** What the hits of a step are. */
const LENDS = 1;
const TAKES = 2;

interface SiteNumbers {
  /** 1 for a bucket, 0 for a window. */
  readonly bucket: number;
  /** The site's part, in hits. */
  readonly base: number;
  /** Token-ms refilled per millisecond. */
  readonly rate: number;
  /** For a bucket one token in token-ms. */
  readonly windowMs: number;
  readonly sites: number;
  /** Hits that may be admitted before others have lent them. */
  readonly advance: number;
  /** `LENDS`, `TAKES`, or 0 for hits that are counted. */
  readonly transfer: number;
  /** The other site and the epoch, then what `SiteTransfer` has. */
  readonly moved: readonly number[];
}

/** A site's counter during a step. */
interface SiteCounter {
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
  /** `ROW` numbers for each site, or none. */
  table: number[];
}

/**
 * A site's share of a limit: a fixed window or a token bucket with an equal part of the limit, the base, and a table of
 * the hits that it has lent to other sites and taken from them. With a `maxErrorPercent` a site may admit a part of that
 * in advance, before others have lent it.
 *
 * Hits are lent before they are taken, and counted as sums over an epoch, so a message that is lost, late or repeated
 * only changes the time at which they arrive. An epoch is the window of a fixed window, and a minute of a bucket; hits
 * lent in one are void in the next. At any time, the hits that all sites may still admit, together with those in
 * transit, are at most the limit.
 *
 * @param nowMs   the clock of the site's store; it may run backwards
 * @param hits    0 peeks, a negative number gives hits back; for `LENDS`, the maximum to lend
 * @param charge  false to leave the counter unchanged and only return the outcome
 * @see https://doi.org/10.1109/SRDS.2015.32 (bounded counters)
 */
export function step(limit: SiteNumbers, state: State | undefined, nowMs: number, hits: number, charge: Charge): Step {
  const share = openShare(limit, state, nowMs);
  if (limit.transfer !== 0) {
    const isMade = limit.transfer === LENDS ? lend(limit, share, nowMs, hits) : take(limit, share, nowMs);
    return finishStep(limit, share, nowMs, isMade, isMade ? undefined : state); // another epoch: no change
  }
  const required = hitsToFit(hits);
  const accepted = required < 0 || required <= roomOf(limit, share) + limit.advance;
  if (charge === 'regardless' || (charge && accepted)) use(limit, share, hits);
  if (charge && hits > 0) share.offered = Math.min(share.offered + hits, MAX_COUNT);
  return finishStep(limit, share, nowMs, accepted, undefined);
}

export function refund(
  limit: SiteNumbers,
  state: State | undefined,
  nowMs: number,
  hits: number,
  chargedAtMs: number,
): Step {
  const share = openShare(limit, state, nowMs);
  if (limit.bucket === 1) {
    const refilled = Math.max(share.atMs - chargedAtMs, 0) * limit.rate;
    share.used = Math.max(share.used - Math.max(hits * limit.windowMs - refilled, 0), leastUsed(limit, share));
  } else use(limit, share, chargedAtMs >= share.epochMs ? -hits : 0);
  return finishStep(limit, share, nowMs, true, undefined);
}

/** The counter as of a time: windows begin, buckets are refilled, demand is forgotten. */
function openShare(limit: SiteNumbers, state: State | undefined, nowMs: number): SiteCounter {
  const lengthMs = epochLengthMs(limit);
  const startMs = nowMs - (nowMs % lengthMs); // never negative
  const slotMs = nowMs - (nowMs % SLOT_MS); // never negative
  const share: SiteCounter = {
    epochMs: startMs,
    used: 0,
    atMs: nowMs,
    slotMs,
    offered: 0,
    earlier: 0,
    heldOver: 0,
    table: [],
  };
  if (state === undefined || state.length < HEAD) return share;
  share.epochMs = state[0] ?? 0;
  share.used = state[1] ?? 0;
  share.atMs = state[2] ?? 0;
  share.heldOver = state[6] ?? 0;
  const length = state.length;
  for (let at = HEAD; at < length; at++) share.table[at - HEAD] = state[at] ?? 0;
  const lastMs = state[3] ?? 0;
  if (slotMs > lastMs) share.earlier = slotMs === lastMs + SLOT_MS ? (state[4] ?? 0) : 0;
  else {
    share.slotMs = lastMs;
    share.offered = state[4] ?? 0;
    share.earlier = state[5] ?? 0;
  }
  if (limit.bucket === 1) refill(limit, share, nowMs, startMs);
  else if (startMs > share.epochMs) {
    share.epochMs = startMs;
    share.used = 0;
    share.table = [];
  }
  return share;
}

const epochLengthMs = (limit: SiteNumbers): number => (limit.bucket === 1 ? EPOCH_MS : limit.windowMs);

/** Refills all but tokens in transit. Those of an earlier epoch remain until no site can take them, whatever its clock. */
function refill(limit: SiteNumbers, share: SiteCounter, nowMs: number, startMs: number): void {
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

function refillTo(limit: SiteNumbers, share: SiteCounter, untilMs: number, keptTokens: number): void {
  if (untilMs <= share.atMs) return;
  const left = share.used - (untilMs - share.atMs) * limit.rate;
  share.used = Math.max(left, keptTokens * limit.windowMs);
  share.atMs = untilMs;
}

/** Tokens lent in this epoch that are not known to be taken. */
function inTransit(share: SiteCounter): number {
  const table = share.table;
  const length = table.length;
  let sum = 0;
  for (let at = 0; at < length; at += ROW) sum += Math.max((table[at] ?? 0) - (table[at + 1] ?? 0), 0);
  return sum;
}

/** Hits that the site may still admit; negative if the limit was lowered. */
function roomOf(limit: SiteNumbers, share: SiteCounter): number {
  if (limit.bucket === 1) return Math.floor((limit.base * limit.windowMs - share.used) / limit.windowMs);
  const table = share.table;
  const length = table.length;
  let moved = 0;
  for (let at = 0; at < length; at += ROW) moved += (table[at + 2] ?? 0) - (table[at] ?? 0);
  return limit.base + moved - share.used;
}

/** Counts hits; for a bucket in token-ms, and never below those in transit. */
function use(limit: SiteNumbers, share: SiteCounter, hits: number): void {
  const unit = limit.bucket === 1 ? limit.windowMs : 1;
  share.used = Math.min(Math.max(share.used + hits * unit, leastUsed(limit, share)), MAX_COUNT);
}

function leastUsed(limit: SiteNumbers, share: SiteCounter): number {
  return limit.bucket === 1 ? (inTransit(share) + share.heldOver) * limit.windowMs : 0;
}

/** The place of the other site's row in the table, which is filled up. */
function findRow(limit: SiteNumbers, share: SiteCounter): number {
  const size = ROW * limit.sites;
  for (let at = share.table.length; at < size; at++) share.table[at] = 0;
  return ROW * (limit.moved[0] ?? 0);
}

function give(limit: SiteNumbers, share: SiteCounter, row: number, hits: number): void {
  share.table[row] = (share.table[row] ?? 0) + hits;
  if (limit.bucket === 1) share.used += hits * limit.windowMs;
}

/** @returns false in another epoch */
function lend(limit: SiteNumbers, share: SiteCounter, nowMs: number, most: number): boolean {
  if (limit.moved[1] !== share.epochMs) return false;
  const row = findRow(limit, share);
  const table = share.table;
  const taken = limit.moved[2] ?? 0;
  const lost = Math.min(taken - (table[row] ?? 0), roomOf(limit, share)); // lent before this counter was lost
  give(limit, share, row, Math.max(lost, 0));
  table[row + 1] = Math.min(Math.max(table[row + 1] ?? 0, taken), table[row] ?? 0);
  const spare = Math.floor((roomOf(limit, share) - expectedUse(limit, share, nowMs)) / (limit.moved[3] ?? 1));
  give(limit, share, row, Math.max(Math.min(most, spare), 0));
  return true;
}

/** The hits that the site is expected to use itself. */
function expectedUse(limit: SiteNumbers, share: SiteCounter, nowMs: number): number {
  const floor = Math.ceil(limit.base / FLOOR_PART);
  const demand = demandOf(share);
  if (limit.bucket === 0)
    return Math.max(floor, Math.ceil((demand * (share.epochMs + limit.windowMs - nowMs)) / SLOT_MS));
  const refilled = Math.floor((AHEAD_SLOTS * SLOT_MS * limit.rate) / limit.windowMs);
  return Math.max(floor, AHEAD_SLOTS * demand - refilled);
}

/** Hits requested per slot recently, whether they passed or not. */
const demandOf = (share: SiteCounter): number => Math.max(share.offered, share.earlier);

/** @returns false in another epoch, or if the clocks differ too much */
function take(limit: SiteNumbers, share: SiteCounter, nowMs: number): boolean {
  const sentMs = limit.moved[3] ?? 0;
  const repliedMs = limit.moved[4] ?? 0;
  const skewMs = Math.max(
    Math.max(repliedMs - sentMs, sentMs - repliedMs),
    Math.max(repliedMs - nowMs, nowMs - repliedMs),
  );
  if (limit.moved[1] !== share.epochMs || skewMs > MAX_SKEW_MS) return false;
  const row = findRow(limit, share);
  const more = Math.max((limit.moved[2] ?? 0) - (share.table[row + 2] ?? 0), 0);
  share.table[row + 2] = (share.table[row + 2] ?? 0) + more;
  if (limit.bucket === 1) use(limit, share, -more);
  return true;
}

/** @param kept  the state to keep instead, if any */
function finishStep(
  limit: SiteNumbers,
  share: SiteCounter,
  nowMs: number,
  accepted: boolean,
  kept: State | undefined,
): Step {
  const state = [share.epochMs, share.used, share.atMs, share.slotMs, share.offered, share.earlier, share.heldOver];
  const length = share.table.length;
  let moved = 0;
  for (let at = 0; at < length; at++) moved += share.table[at] ?? 0;
  if (moved > 0) for (let at = 0; at < length; at++) state[HEAD + at] = share.table[at] ?? 0;
  return { accepted, state: kept ?? state, ttlMs: findTtlMs(limit, share, nowMs, moved > 0) };
}

/** The time until the state is that of an unused counter. */
function findTtlMs(limit: SiteNumbers, share: SiteCounter, nowMs: number, isMoved: boolean): number {
  const slots = share.offered > 0 ? 2 : share.earlier > 0 ? 1 : 0;
  const demandMs = slots > 0 ? share.slotMs + slots * SLOT_MS - nowMs : 0;
  let usedMs = 0;
  if (limit.bucket === 0) usedMs = share.used > 0 || isMoved ? share.epochMs + limit.windowMs - nowMs : 0;
  else {
    const fullMs = Math.ceil(share.used / limit.rate);
    if (share.heldOver > 0 || isMoved) usedMs = share.epochMs + EPOCH_MS + MAX_SKEW_MS + fullMs - nowMs;
    else if (share.used > 0) usedMs = share.atMs + fullMs - nowMs;
  }
  return Math.max(usedMs, Math.max(demandMs, 0));
}

function numbers(limit: SiteShareLimit, _nowMs: number, claim: Claim | undefined): SiteNumbers {
  const transfer = claim?.transfer;
  const lends = transfer?.kind === 'lend' ? [transfer.peer, transfer.epochMs, transfer.taken, transfer.among] : [];
  const takes =
    transfer?.kind === 'take'
      ? [transfer.peer, transfer.epochMs, transfer.given, transfer.sentMs, transfer.repliedMs]
      : [];
  return {
    bucket: isBucket(limit) ? 1 : 0,
    base: siteBase(limit),
    rate: siteRate(limit),
    windowMs: isBucket(limit) ? siteTokenMs(limit) : limit.windowMs,
    sites: limit.sites,
    advance: siteAdvance(limit),
    transfer: lends.length > 0 ? LENDS : takes.length > 0 ? TAKES : 0,
    moved: [...lends, ...takes],
  };
}

/** The hits that a site's unused counter admits without loans. */
const unusedCapacity = (limit: SiteShareLimit): number => siteBase(limit) + siteAdvance(limit);

const describeTokens = describeBucket(({ requestsPerUnit: rate }, tokenMs, sinceMs, nowMs) =>
  tokenMs <= 0 ? 0 : sinceMs + Math.ceil(tokenMs / rate) - nowMs,
);

/** The row of site shares: rules have `sites` beside the algorithm that counts. */
export const siteShare: Counting<SiteShareLimit> = {
  notARate: 'sites share it, and each site sees only its own part',
  named: ({ of }) => of,
  write: ({ of, burst, maxErrorPercent: percent }) => [
    ...(isBucket({ of }) ? [`burst: ${burst}`] : []),
    percent > 0 ? `sites: { mode: optimistic, max_error: ${percent}% }` : 'sites: { mode: escrow }',
  ],
  list: ({ of, burst, maxErrorPercent: percent }) => ({
    ...(isBucket({ of }) && { burst }),
    sites: percent > 0 ? { mode: 'optimistic', max_error: `${percent}%` } : { mode: 'escrow' },
  }),
  capacity: unusedCapacity,
  longestMemoryMs: (limit) =>
    !isBucket(limit)
      ? 2 * limit.windowMs + unitMs.SECOND
      : Math.max(Math.ceil((2 * unusedCapacity(limit) * siteTokenMs(limit)) / siteRate(limit)), unitMs.DAY),
  ...stepped({ compiled: compiled.site_share, numbers, step, refund }),
  describe(limit, state, nowMs, outcome, claim) {
    const own = numbers(limit, nowMs, undefined);
    const share = openShare(own, state, nowMs);
    const site = claim?.transfer && { site: createReport(limit, share, nowMs) };
    if (isBucket(limit)) {
      const numbers = { requestsPerUnit: siteRate(limit), windowMs: siteTokenMs(limit), burst: unusedCapacity(limit) };
      const bucket = { ...limit, ...numbers, maxDelayMs: 0 };
      return { ...describeTokens(bucket, [share.used, share.atMs], nowMs, outcome), ...site };
    }
    const endMs = share.epochMs + limit.windowMs;
    const { accepted, hits } = outcome;
    return {
      code: accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore: Math.max(share.used - takenBy(outcome), 0),
      limitRemaining: Math.max(roomOf(own, share) + own.advance, 0),
      durationUntilResetMs: endMs - nowMs,
      retryAfterMs: accepted ? 0 : hits <= unusedCapacity(limit) ? endMs - nowMs : NEVER_MS,
      delayMs: 0,
      soft: false,
      ...site,
    };
  },
  account(limit, state, nowMs) {
    const { used, lent, borrowed } = siteStanding(limit, state, nowMs);
    if (isBucket(limit)) return { terms: [String(used)], used };
    const moved = [...(lent > 0 ? [`${lent} lent`] : []), ...(borrowed > 0 ? [`-${borrowed} borrowed`] : [])];
    return { terms: [String(used), ...moved], used: used + lent - borrowed };
  },
  standing: (limit, state, nowMs) => ({ site: siteStanding(limit, state, nowMs) }),
  heldAt: (limit) => ({ first: 1, last: 1, unit: isBucket(limit) ? siteTokenMs(limit) : 1 }),
  state: {},
};

const createReport = (limit: SiteShareLimit, share: SiteCounter, nowMs: number) => ({
  epochMs: share.epochMs,
  leftMs: share.epochMs + epochLengthMs(numbers(limit, nowMs, undefined)) - nowMs,
  nowMs,
  demand: demandOf(share),
  room: roomOf(numbers(limit, nowMs, undefined), share),
  used: isBucket(limit) ? Math.ceil(share.used / siteTokenMs(limit)) : share.used,
  given: Array.from({ length: limit.sites }, (_, peer) => share.table[ROW * peer] ?? 0),
  taken: Array.from({ length: limit.sites }, (_, peer) => share.table[ROW * peer + 2] ?? 0),
});

/** Percentage of its demand that a site requests, above 100 for requests that arrive while it waits. */
const HEADROOM_PERCENT = 104;

/** Hits to request from each other site, as a bucket cannot hold all that they could lend together. */
export const hitsPerSite = (limit: SiteShareLimit, need: number): number =>
  isBucket(limit) ? Math.ceil(need / Math.max(limit.sites - 1, 1)) : need;

/**
 * The hits that a site lacks, in a window until it ends, in a bucket until the exchange after the next.
 *
 * @param demand  hits per slot
 */
export function missingHits(limit: SiteShareLimit, { leftMs, room }: SiteReport, demand: number): number {
  if (!isBucket(limit)) {
    const expected = Math.ceil((demand * Math.max(leftMs, 0) * HEADROOM_PERCENT) / (SLOT_MS * 100));
    return Math.max(Math.min(expected - room, limit.requestsPerUnit), 0);
  }
  const refilled = Math.floor((AHEAD_SLOTS * SLOT_MS * siteRate(limit)) / siteTokenMs(limit));
  const fits = siteBase(limit) - room;
  return Math.max(Math.min(AHEAD_SLOTS * demand - refilled - room, fits), 0);
}

/** This site's part of a limit, and what has been moved. Whole hits. */
export function siteStanding(limit: SiteShareLimit, state: State | undefined, nowMs: number) {
  const { used, given, taken } = createReport(limit, openShare(numbers(limit, nowMs, undefined), state, nowMs), nowMs);
  return { base: siteBase(limit), advance: siteAdvance(limit), used, lent: sumOf(given), borrowed: sumOf(taken) };
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);
