import { describeBucket } from '../algorithms/bucket.ts';
import {
  type AnyLimit,
  hitsToFit,
  MAX_COUNT,
  NEVER_MS,
  type State,
  type Step,
  takenBy,
  unitMs,
} from '../algorithms/limit.ts';
import type { SiteTransfer } from './claim.ts';
import type { Counting } from './counting.ts';
import type { SiteReport } from './reports.ts';
import {
  isBucket,
  MAX_SKEW_MS,
  SiteShare,
  SLOT_MS,
  siteAdvance,
  siteBase,
  siteRate,
  siteTokenMs,
} from './site-share-state.ts';

/** The algorithms whose limits sites can share. */
export const sharedAlgorithms = ['fixed_window', 'token_bucket'] as const;

/** The values of a rule's `mode`: whether sites may exceed a limit by a declared error. */
export const siteModes = ['escrow', 'optimistic'] as const;

/** The number of sites that share a limit, and the index of this site. */
interface SitePart {
  readonly sites: number;
  readonly site: number;
  /** Indices of sites whose parts the others divide. Default: none. */
  readonly lost?: readonly number[];
}

/** A site's part according to the settings. */
export interface SiteSplit extends SitePart {
  /** A digest of the names of all sites in order: if one of them differs, an index stands for another site. */
  readonly group: string;
}

/** One site's part of a limit, which is counted in the site's store. */
export interface SiteShareLimit extends AnyLimit, SitePart {
  readonly algorithm: 'site_share';
  /** The rule's algorithm; `requestsPerUnit` and `burst` are those of all sites together. */
  readonly of: (typeof sharedAlgorithms)[number];
  /** For a bucket; for a window equal to `requestsPerUnit`. */
  readonly burst: number;
  /** Percentage by which all sites together may exceed the limit; 0 for `mode: escrow`. */
  readonly maxErrorPercent: number;
}

/** An idle site keeps this part of its base, so that its first requests pass. */
const FLOOR_PART = 16;

/** A bucket keeps, or requests, the demand of its site in this many slots, less what is refilled meanwhile. */
const AHEAD_SLOTS = 2;

/**
 * A site's share of a limit: a fixed window or a token bucket with an equal part of the limit, the base, and a table of
 * the hits that it has lent to other sites and taken from them. Twin of site-share.lua. With a `maxErrorPercent` a site
 * may admit a part of that in advance, before others have lent it.
 *
 * Hits are lent before they are taken, and counted as sums over an epoch, so a message that is lost, late or repeated
 * only changes the time at which they arrive. An epoch is the window of a fixed window, and a minute of a bucket; hits
 * lent in one are void in the next. At any time, the hits that all sites may still admit, together with those in
 * transit, are at most the limit.
 *
 * @param nowMs   the clock of the site's store; it may run backwards
 * @param hits    0 peeks, a negative number gives hits back; for `lend`, the maximum to lend
 * @param charge  false to leave the counter unchanged and only return the outcome
 * @see https://doi.org/10.1109/SRDS.2015.32 (bounded counters)
 */
const step: Counting<SiteShareLimit>['step'] = (limit, state, nowMs, hits, charge, claim) => {
  const share = new SiteShare(limit, state, nowMs);
  const transfer = claim?.transfer;
  if (transfer && transfer.kind !== 'read') {
    const isMade =
      transfer.kind === 'lend' ? lend(limit, share, nowMs, hits, transfer) : take(limit, share, nowMs, transfer);
    const after = finishStep(share, nowMs, isMade);
    return isMade ? after : { ...after, state: state ?? after.state }; // another epoch: no change
  }
  const required = hitsToFit(hits);
  const accepted = required < 0 || required <= share.room + siteAdvance(limit);
  if (charge === 'regardless' || (charge && accepted)) use(limit, share, hits);
  if (charge && hits > 0) share.offered = Math.min(share.offered + hits, MAX_COUNT);
  return finishStep(share, nowMs, accepted);
};

/** Counts hits; for a bucket in token-milliseconds, and never below those in transit. */
function use(limit: SiteShareLimit, share: SiteShare, hits: number): void {
  const unit = isBucket(limit) ? siteTokenMs(limit) : 1;
  const least = isBucket(limit) ? (share.inTransit + share.heldOver) * unit : 0;
  share.used = Math.min(Math.max(share.used + hits * unit, least), MAX_COUNT);
}

function lend(
  limit: SiteShareLimit,
  share: SiteShare,
  nowMs: number,
  most: number,
  { peer, epochMs, taken, among }: Extract<SiteTransfer, { kind: 'lend' }>,
): boolean {
  if (epochMs !== share.epochMs) return false;
  const row = share.findRow(peer);
  const give = (given: number): void => {
    row.given += given;
    if (isBucket(limit)) share.used += given * siteTokenMs(limit);
  };
  give(Math.max(Math.min(taken - row.given, share.room), 0)); // lent before this counter was lost
  row.confirmed = Math.min(Math.max(row.confirmed, taken), row.given);
  const spare = Math.floor((share.room - expectedUse(limit, share, nowMs)) / among);
  give(Math.max(Math.min(most, spare), 0));
  return true;
}

/** The hits that the site is expected to use itself. */
function expectedUse(limit: SiteShareLimit, share: SiteShare, nowMs: number): number {
  const floor = Math.ceil(siteBase(limit) / FLOOR_PART);
  const demand = share.demand;
  if (!isBucket(limit))
    return Math.max(floor, Math.ceil((demand * (share.epochMs + limit.windowMs - nowMs)) / SLOT_MS));
  const refilled = Math.floor((AHEAD_SLOTS * SLOT_MS * siteRate(limit)) / siteTokenMs(limit));
  return Math.max(floor, AHEAD_SLOTS * demand - refilled);
}

function take(
  limit: SiteShareLimit,
  share: SiteShare,
  nowMs: number,
  { peer, epochMs, given, sentMs, repliedMs }: Extract<SiteTransfer, { kind: 'take' }>,
): boolean {
  const isInTime = Math.abs(repliedMs - sentMs) <= MAX_SKEW_MS && Math.abs(repliedMs - nowMs) <= MAX_SKEW_MS;
  if (epochMs !== share.epochMs || !isInTime) return false;
  const row = share.findRow(peer);
  const more = Math.max(given - row.taken, 0);
  row.taken += more;
  if (isBucket(limit)) use(limit, share, -more);
  return true;
}

function finishStep(share: SiteShare, nowMs: number, accepted: boolean): Step {
  return { accepted, state: share.toState(), ttlMs: share.ttlMs(nowMs) };
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
  step,
  describe(limit, state, nowMs, outcome, claim) {
    const share = new SiteShare(limit, state, nowMs);
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
      limitRemaining: Math.max(share.room + siteAdvance(limit), 0),
      durationUntilResetMs: endMs - nowMs,
      retryAfterMs: accepted ? 0 : hits <= unusedCapacity(limit) ? endMs - nowMs : NEVER_MS,
      delayMs: 0,
      soft: false,
      ...site,
    };
  },
  refund(limit, state, nowMs, hits, chargedAtMs) {
    const share = new SiteShare(limit, state, nowMs);
    if (!isBucket(limit)) use(limit, share, chargedAtMs >= share.epochMs ? -hits : 0);
    else {
      const tokenMs = siteTokenMs(limit);
      const refilledMs = Math.max(share.atMs - chargedAtMs, 0);
      const back = Math.max(hits * tokenMs - refilledMs * siteRate(limit), 0);
      share.used = Math.max(share.used - back, (share.inTransit + share.heldOver) * tokenMs);
    }
    return finishStep(share, nowMs, true);
  },
  account(limit, state, nowMs) {
    const { used, lent, borrowed } = siteStanding(limit, state, nowMs);
    if (isBucket(limit)) return { terms: [String(used)], used };
    const moved = [...(lent > 0 ? [`${lent} lent`] : []), ...(borrowed > 0 ? [`-${borrowed} borrowed`] : [])];
    return { terms: [String(used), ...moved], used: used + lent - borrowed };
  },
  heldAt: (limit) => ({ first: 1, last: 1, unit: isBucket(limit) ? siteTokenMs(limit) : 1 }),
  state: {},
  script: new URL('./site-share.lua', import.meta.url),
  scriptArgs(limit, _nowMs, claim) {
    const { windowMs, sites } = limit;
    const transfer = claim?.transfer;
    const numbers = [
      isBucket(limit) ? 1 : 0,
      siteBase(limit),
      siteRate(limit),
      isBucket(limit) ? siteTokenMs(limit) : windowMs,
      sites,
      siteAdvance(limit),
    ];
    if (transfer?.kind === 'lend')
      return [...numbers, 1, transfer.peer, transfer.epochMs, transfer.taken, transfer.among];
    if (transfer?.kind === 'take')
      return [...numbers, 2, transfer.peer, transfer.epochMs, transfer.given, transfer.sentMs, transfer.repliedMs];
    return [...numbers, 0];
  },
};

const createReport = (limit: SiteShareLimit, share: SiteShare, nowMs: number) => ({
  epochMs: share.epochMs,
  leftMs: share.endMs - nowMs,
  nowMs,
  demand: share.demand,
  room: share.room,
  used: isBucket(limit) ? Math.ceil(share.used / siteTokenMs(limit)) : share.used,
  given: Array.from({ length: limit.sites }, (_, peer) => share.table[3 * peer] ?? 0),
  taken: Array.from({ length: limit.sites }, (_, peer) => share.table[3 * peer + 2] ?? 0),
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
  const { used, given, taken } = createReport(limit, new SiteShare(limit, state, nowMs), nowMs);
  return { base: siteBase(limit), advance: siteAdvance(limit), used, lent: sumOf(given), borrowed: sumOf(taken) };
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);
