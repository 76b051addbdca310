import type { Pool } from '../../engine/rules/match/strategy.ts';

/** How long shares are valid. Milliseconds. */
export interface ShareTerms {
  /** From its receipt, unless it is renewed. */
  readonly ttlMs: number;
  /** Maximum total transit time of a message to a holder and its next report. */
  readonly transitMs: number;
  /** A holder that has not reported for this time has no demand. */
  readonly silenceMs: number;
}

/**
 * How long a named holder may keep a share that is not known here: it may have been due for renewal one report before
 * its connection broke, and each of its next two reports may be the last before it expires.
 */
export const resumeMs = ({ ttlMs, transitMs, silenceMs }: ShareTerms): number => ttlMs / 2 - silenceMs - 2 * transitMs;

/** A report of one holder. */
export interface ShareReport {
  /** Without spaces. */
  readonly holder: string;
  /** Its requests, allowed or not, in `elapsedMs`. */
  readonly requests: number;
  /**
   * Time since the last report that had one. Below `MIN_ELAPSED_MS` it is too short or unknown, and the demand is
   * unchanged.
   */
  readonly elapsedMs: number;
  /** Number of the last share sent on the report's connection; 0 before the first. */
  readonly sent: number;
  /** Whether the holder had received that share before it sent the report. */
  readonly isConfirmed: boolean;
  /**
   * Whether it has a share from an earlier connection that is not known here, which it keeps until its fair share is
   * free.
   */
  readonly isResumed: boolean;
  /** Whether it gives up the bucket; its share counts until it expires. */
  readonly leaves: boolean;
}

/** A share to be sent to a holder. */
export interface Share {
  /** Increases from 1 with each share sent to the holder. */
  readonly number: number;
  /** Tokens per fill. */
  readonly units: number;
  readonly burst: number;
}

/** One holder in the state of a pool. Times in milliseconds since the epoch. */
export interface ShareHolder {
  readonly id: string;
  /** In tokens per fill; -1 if unknown. */
  readonly demand: number;
  readonly reportedAtMs: number;
  /** The last share that was sent, and the latest time of its expiry. */
  readonly number: number;
  readonly units: number;
  readonly burst: number;
  readonly endsAtMs: number;
  /** Largest earlier share that the holder may still use, and until when. */
  readonly earlierUnits: number;
  readonly earlierBurst: number;
  readonly earlierEndsAtMs: number;
}

/** The holders of a pool. */
export type ShareState = readonly ShareHolder[];

interface ShareStep {
  readonly state: ShareState;
  /** Share to send, if any. */
  readonly share: Share | undefined;
  /** The time until the state no longer matters. */
  readonly ttlMs: number;
}

/** What a step on a pool goes by. */
interface SharesNow {
  readonly pool: Pool;
  readonly terms: ShareTerms;
  /** The store's clock. */
  readonly nowMs: number;
}

/** Maximum number of holders of a pool; further ones get no share. */
export const MAX_HOLDERS = 256;
/** Minimum share of a holder as a fraction of an equal share, so that one with an unknown or new demand can start. */
const FLOOR_PART = 8;
/** Fraction of the rate that is reserved for holders without a share. */
const RESERVE_PART = 128;
/** Fraction by which a share must change to be sent. */
const CHANGE_PART = 32;
/** The rate that a holder may use while others need more, which is its demand plus some headroom. */
const HEADROOM_PERCENT = 104;
/** The shortest time over which demand is measured. */
export const MIN_ELAPSED_MS = 500;

/**
 * Processes the report of one holder, and decides its share: the max-min fair share of its demand, but never more than
 * what others have given up. A share that was sent counts until its holder has confirmed the next one or until it has
 * expired: at any time, the shares in force add up to at most the rate.
 *
 * @param state  returned by the previous step; undefined for a new pool
 */
export function stepShares(state: ShareState | undefined, report: ShareReport, now: SharesNow): ShareStep {
  const known = (state ?? []).filter((one) => isInForce(one, now) || isActive(one, now));
  const before = known.find(({ id }) => id === report.holder);
  if (!before && (report.leaves || known.length >= MAX_HOLDERS))
    return finishStep(known, report.leaves ? undefined : { number: report.sent, units: 0, burst: 0 }, now);
  const holder = reported(before ?? { ...emptyHolder, id: report.holder }, report, now);
  const others = known.filter((one) => one !== before);
  if (report.leaves) return finishStep([...others, { ...holder, reportedAtMs: 0 }], undefined, now);
  const { target, units, burst } = computeShare(holder, others, now);
  const share = { number: holder.number + 1, units, burst };
  const isWaiting = report.isResumed && holder.number === 0 && units < Math.min(target, holder.demand);
  if (isWaiting || (report.sent === holder.number && isAlike(holder, share, now)))
    return finishStep([...others, holder], undefined, now);
  return finishStep([...others, sent(holder, share, now)], share, now);
}

function finishStep(state: ShareState, share: Share | undefined, { terms, nowMs }: SharesNow): ShareStep {
  let untilMs = nowMs;
  for (const one of state)
    untilMs = Math.max(untilMs, one.endsAtMs, one.earlierEndsAtMs, one.reportedAtMs + terms.silenceMs);
  return { state, share, ttlMs: untilMs - nowMs };
}

/** A holder that has not reported, without its id; in the order in which Redis stores the numbers. */
export const emptyHolder: ShareHolder = {
  id: '',
  demand: -1,
  reportedAtMs: 0,
  number: 0,
  units: 0,
  burst: 0,
  endsAtMs: 0,
  earlierUnits: 0,
  earlierBurst: 0,
  earlierEndsAtMs: 0,
};

const isInForce = ({ endsAtMs, earlierEndsAtMs }: ShareHolder, { nowMs }: SharesNow): boolean =>
  endsAtMs > nowMs || earlierEndsAtMs > nowMs;

const isActive = ({ reportedAtMs }: ShareHolder, { terms, nowMs }: SharesNow): boolean =>
  reportedAtMs + terms.silenceMs > nowMs;

/** The holder with its new demand, and without earlier shares that it can no longer use. */
function reported(
  holder: ShareHolder,
  { requests, elapsedMs, sent, isConfirmed }: ShareReport,
  { pool, nowMs }: SharesNow,
): ShareHolder {
  const isConfirming = isConfirmed && sent === holder.number;
  const earlier =
    isConfirming || holder.earlierEndsAtMs <= nowMs ? { earlierUnits: 0, earlierBurst: 0, earlierEndsAtMs: 0 } : {};
  const reportedAtMs = Math.max(nowMs, holder.reportedAtMs);
  if (elapsedMs < MIN_ELAPSED_MS) return { ...holder, ...earlier, reportedAtMs };
  const newest = Math.min(Math.floor((requests * pool.fillMs) / elapsedMs), 2 * pool.units);
  const demand = newest >= holder.demand ? newest : Math.floor((7 * newest + holder.demand) / 8);
  return { ...holder, ...earlier, demand, reportedAtMs };
}

/** Maximum that the holder may use now, including a share that it may not have given up yet. */
function inForce(holder: ShareHolder, nowMs: number, what: 'units' | 'burst'): number {
  const now = holder.endsAtMs > nowMs ? holder[what] : 0;
  const earlier = what === 'units' ? holder.earlierUnits : holder.earlierBurst;
  return holder.earlierEndsAtMs > nowMs ? Math.max(now, earlier) : now;
}

/** The fair share, and the part of it that is available now. */
function computeShare(
  holder: ShareHolder,
  others: ShareState,
  now: SharesNow,
): { readonly target: number; readonly units: number; readonly burst: number } {
  const { pool, nowMs } = now;
  const active = others.filter((one) => isActive(one, now));
  const count = active.length + 1;
  const floor = Math.max(Math.floor(pool.units / (FLOOR_PART * count)), 1);
  const most = pool.units - Math.floor(pool.units / RESERVE_PART);
  const wish = ({ demand }: ShareHolder): number =>
    demand < 0 ? pool.units : Math.min(Math.max(Math.ceil((demand * HEADROOM_PERCENT) / 100), floor), pool.units);
  const fair = fairLevel(most, [...active.map(wish), wish(holder)]);
  const target = fairShare(fair, wish(holder));
  const own = inForce(holder, nowMs, 'units');
  const usedUnits = sumInForce(others, nowMs, 'units');
  const burst = {
    burst: Math.max(
      Math.min(Math.floor(pool.burst / nextPowerOfTwo(count)), pool.burst - sumInForce(others, nowMs, 'burst')),
      1,
    ),
  };
  if (target <= own) return { target, units: target, ...burst };
  const room = Math.max((own === 0 ? pool.units : most) - usedUnits - own, 0);
  const missing = active.map((one) => Math.max(fairShare(fair, wish(one)) - inForce(one, nowMs, 'units'), 0));
  const { level } = fairLevel(room, [...missing, target - own]);
  return { target, units: own + Math.min(target - own, level), ...burst };
}

function sumInForce(holders: ShareState, nowMs: number, what: 'units' | 'burst'): number {
  let sum = 0;
  for (const holder of holders) sum += inForce(holder, nowMs, what);
  return sum;
}

/** Bursts change only when the number of holders doubles or halves, since each change makes proxies rescale tokens. */
function nextPowerOfTwo(count: number): number {
  let power = 1;
  while (power < count) power *= 2;
  return power;
}

/** Whether a share needs not be sent: the last one is much the same, and half of its term is not over. */
function isAlike(holder: ShareHolder, { units, burst }: Share, { terms, nowMs }: SharesNow): boolean {
  if (holder.number === 0 || burst !== holder.burst) return false;
  if (holder.endsAtMs - terms.transitMs - nowMs <= terms.ttlMs / 2) return false;
  return Math.abs(units - holder.units) * CHANGE_PART <= Math.max(units, holder.units);
}

const sent = (holder: ShareHolder, share: Share, { terms, nowMs }: SharesNow): ShareHolder => ({
  ...holder,
  ...share,
  earlierUnits: inForce(holder, nowMs, 'units'),
  earlierBurst: inForce(holder, nowMs, 'burst'),
  earlierEndsAtMs: Math.max(holder.endsAtMs, holder.earlierEndsAtMs),
  endsAtMs: nowMs + terms.ttlMs + terms.transitMs,
});

/** The division of units among demands. */
interface FairLevel {
  /** What larger demands get; Infinity if every demand is met. */
  readonly level: number;
  /** The remaining units, and the sum of the demands, if every demand is met. */
  readonly left: number;
  readonly total: number;
}

/**
 * The max-min fair level: demands below it are met, all others get the level.
 *
 * @param units    an integer
 * @param demands  integers
 * @see https://en.wikipedia.org/wiki/Max-min_fairness
 */
export function fairLevel(units: number, demands: readonly number[]): FairLevel {
  const ascending = demands.toSorted((one, other) => one - other);
  let left = units;
  let total = 0;
  for (const [at, demand] of ascending.entries()) {
    const level = Math.floor(left / (ascending.length - at));
    if (demand > level) return { level, left: 0, total };
    left -= demand;
    total += demand;
  }
  return { level: Number.POSITIVE_INFINITY, left, total };
}

/**
 * The fair share of one demand. Half of the remaining units is distributed in proportion to the demands; the other half
 * remains free, so that a holder whose demand grows does not have to wait for others to shrink.
 */
export function fairShare({ level, left, total }: FairLevel, demand: number): number {
  return demand > level ? level : demand + Math.floor((left * (demand / Math.max(total, 1))) / 2);
}
