import { algorithms } from '../../engine/algorithms/index.ts';
import type { State } from '../../engine/algorithms/limit.ts';
import { showMoney } from '../../engine/algorithms/money.ts';
import { allowedSlots, holdsIn } from '../../engine/holds/adaptive.ts';
import { ANONYMOUS, type Claim } from '../../engine/holds/claim.ts';
import { ownSlots } from '../../engine/holds/in-flight.ts';
import {
  type AlgorithmName,
  algorithmFor,
  fullCapacity,
  type Limit,
  type SharedLimit,
} from '../../engine/holds/limits.ts';
import type { AdaptedReport, ShareReport } from '../../engine/holds/reports.ts';
import type { SiteShareLimit } from '../../engine/holds/site-share.ts';
import { siteAdvance, siteBase } from '../../engine/holds/site-share-state.ts';
import type { CounterState, SharedChild } from '../answers/counters.ts';
import type { SiteStanding, StateDrawing } from '../answers/explain.ts';

/** The state of a counter in whole hits. */
export function counterState(limit: Limit, state: State | undefined, nowMs: number, claim?: Claim): CounterState {
  const {
    hitsBefore: used,
    limitRemaining: remaining,
    durationUntilResetMs: resetsInMs,
    holds,
    reservation,
    share,
  } = describeCounter(limit, state, nowMs, claim);
  const adapted = holds?.adapted && { adapted: { ...holds.adapted, why: moveTexts[holds.adapted.move] } };
  const oldest = holds && { oldestMs: holds.oldestMs, ...adapted };
  const onHold = reservation && {
    onHold: reservation.held,
    open: reservation.open,
    oldestMs: reservation.oldestMs,
  };
  const { currency } = limit;
  const unit = currency !== undefined && { currency };
  const child = share && (claim?.share ?? claim?.slotShare) && { share: pick(share) };
  return { used, remaining, resetsInMs: state ? Math.max(resetsInMs, 0) : 0, ...oldest, ...onHold, ...unit, ...child };
}

const pick = ({ used, borrowed, unspent, held }: ShareReport) => ({ used, borrowed, unspent, held });

const MAX_TICKS = 200;

/** The state of a counter, for drawing. */
export function drawState(limit: Limit, state: State | undefined, nowMs: number): StateDrawing {
  const capacity = fullCapacity(limit);
  const { windowMs } = limit;
  switch (limit.algorithm) {
    case 'token_bucket':
    case 'leaky_bucket':
    case 'allocation':
    case 'fair_share':
      return { kind: 'level', capacity };
    case 'sliding_window_counter': {
      const { count, previous, covered } = readWindows(limit, state, nowMs);
      return { kind: 'parts', capacity, parts: [Math.round(previous * covered * 100) / 100, count] };
    }
    case 'sliding_window_buckets': {
      const [, ...counts] = algorithms.sliding_window_buckets.step(limit, state, nowMs, 0, false).state;
      const parts = Array.from({ length: limit.buckets + 1 }, (_, at) => counts[at] ?? 0);
      return { kind: 'parts', capacity, parts: parts.reverse() };
    }
    case 'sliding_window_log': {
      const { state: log } = algorithms.sliding_window_log.step(limit, state, nowMs, 0, false);
      const ticks = Array.from(
        { length: log.length / 2 },
        (_, at) => [Math.max(nowMs - (log[2 * at] ?? 0), 0), log[2 * at + 1] ?? 0] as const,
      );
      return { kind: 'ticks', capacity, windowMs, ticks: ticks.slice(-MAX_TICKS) };
    }
    case 'fixed_window':
    case 'reservation':
    case 'site_share':
      return { kind: 'window', capacity, windowMs };
    case 'in_flight':
      return { kind: 'slots', capacity, ttlMs: windowMs };
    case 'adaptive': {
      const { limit: slots = capacity } = describeCounter(limit, state, nowMs).holds?.adapted ?? {};
      return { kind: 'slots', capacity: slots, ttlMs: windowMs };
    }
  }
}

/** The hits of this window and the previous one, and the part of the previous one that still counts. */
function readWindows(limit: Of<'sliding_window_counter'>, state: State | undefined, nowMs: number) {
  const { state: now } = algorithms.sliding_window_counter.step(limit, state, nowMs, 0, false);
  const [startMs = 0, count = 0, previous = 0] = now;
  return { count, previous, covered: Math.max(limit.windowMs - Math.max(nowMs - startMs, 0), 0) / limit.windowMs };
}

/** A counter before hits are spent on it. */
interface Standing {
  readonly state: State | undefined;
  readonly nowMs: number;
  /** At least 0. */
  readonly hits: number;
  /** What the request states. */
  readonly claim?: Claim;
}

/** The content of a counter, in the algorithm's own unit, and its parts. */
interface Account {
  /** The terms of the sum: `7 × 0.35`, `3`. */
  readonly terms: readonly string[];
  readonly used: number;
  /** Default: that of the limit. */
  readonly capacity?: number;
  /** Where the capacity comes from. */
  readonly note?: string;
  /** Room beyond the capacity for requests that may be delayed. */
  readonly mayOwe?: number;
}

type Of<N extends AlgorithmName> = Extract<Limit, { algorithm: N }>;
type Accounting<L> = (limit: L, state: State | undefined, nowMs: number, claim: Claim) => Account;

/** A counter whose hits are reported as one number. */
function whole(limit: Limit, state: State | undefined, nowMs: number): Account {
  const used = hitsUsed(limit, state, nowMs);
  return { terms: [amount(limit, used)], used };
}

const accounts: { readonly [N in AlgorithmName]: Accounting<Of<N>> } = {
  fixed_window: whole,
  sliding_window_log: whole,
  sliding_window_counter(limit, state, nowMs) {
    const { count, previous, covered } = readWindows(limit, state, nowMs);
    return {
      terms: [`${amount(limit, previous)} × ${text(covered)}`, amount(limit, count)],
      used: previous * covered + count,
    };
  },
  sliding_window_buckets(limit, state, nowMs) {
    const [, ...counts] = algorithms.sliding_window_buckets.step(limit, state, nowMs, 0, false).state;
    const used = counts.reduce((sum, count) => sum + count, 0);
    const some = counts.filter((count) => count > 0);
    const terms = some.length > 0 && some.length <= MAX_TERMS ? some : [used];
    return { terms: terms.map((count) => amount(limit, count)), used };
  },
  token_bucket: inBucket,
  leaky_bucket: inBucket,
  in_flight(limit, state, nowMs, { holder = ANONYMOUS }) {
    const used = hitsUsed(limit, state, nowMs) - ownSlots(limit, holder, state, nowMs); // own slots are not counted twice
    return { terms: [text(used)], used };
  },
  allocation: whole,
  adaptive(limit, state, nowMs, { holder = ANONYMOUS, threshold }) {
    const { hitsBefore, holds } = describeCounter(limit, state, nowMs);
    const used = hitsBefore - ownSlots(limit, holder, holdsIn(state), nowMs);
    const adapted = holds?.adapted;
    if (!adapted) return { terms: [text(used)], used };
    const part = threshold === undefined ? '' : `${threshold} % of ${adapted.limit} slots, `;
    const capacity = allowedSlots(adapted.limit, { threshold });
    return { terms: [text(used)], used, capacity, note: `${part}${adaptedText(adapted)}` };
  },
  reservation(limit, state, nowMs) {
    const { hitsBefore, reservation } = describeCounter(limit, state, nowMs);
    const held = reservation?.held ?? 0;
    return { terms: [amount(limit, hitsBefore - held), `${amount(limit, held)} on hold`], used: hitsBefore };
  },
  fair_share: whole,
  site_share(limit, state, nowMs) {
    const standing = siteStanding(limit, state, nowMs);
    const { used, lent, borrowed } = standing;
    const moved = limit.of === 'token_bucket' ? 0 : lent - borrowed;
    return { terms: siteTerms(limit, standing), used: used + moved };
  },
};

const MAX_TERMS = 6;

/** Hits spent and not yet refilled, to the millisecond. */
function inBucket(
  limit: Extract<Limit, { burst: number; maxDelayMs: number }>,
  state: State | undefined,
  nowMs: number,
): Account {
  if ('refill' in limit && limit.refill === 'interval') return whole(limit, state, nowMs);
  const { requestsPerUnit, windowMs, maxDelayMs } = limit;
  const used = (describeCounter(limit, state, nowMs).durationUntilResetMs * requestsPerUnit) / windowMs;
  return { terms: [amount(limit, used)], used, mayOwe: (maxDelayMs * requestsPerUnit) / windowMs };
}

/** A counter as it is, without spending hits. */
export function describeCounter(limit: Limit, state: State | undefined, nowMs: number, claim?: Claim) {
  const { step, describe: describeStep } = algorithmFor(limit);
  const { accepted, state: kept, report = kept } = step(limit, state, nowMs, 0, false, claim);
  return describeStep(limit, report, nowMs, { hits: 0, accepted, charged: false }, claim);
}

const hitsUsed = (limit: Limit, state: State | undefined, nowMs: number): number =>
  describeCounter(limit, state, nowMs).hitsBefore;

/**
 * The arithmetic behind a limit's decision: `7 × 0.35 + 3 + 1 = 6.45 ≤ 10`. Compares the hits used before and those of
 * the request with what the limit admits.
 *
 * @param isOver  the actual decision: the rounded sum may differ from it by a fraction
 */
export function writeArithmetic(limit: Limit, { state, nowMs, hits, claim = {} }: Standing, isOver: boolean): string {
  const account = accounts[limit.algorithm] as Accounting<Limit>; // the row of its own kind
  const { terms, used, mayOwe = 0, capacity = fullCapacity(limit), note } = account(limit, state, nowMs, claim);
  const requested = hits === 0 ? [] : [amount(limit, hits)];
  const sum = used + hits;
  const left = [...terms, ...requested];
  const whole = amount(limit, sum);
  const total = left.length > 1 || whole !== left[0] ? `${left.join(' + ')} = ${whole}` : whole;
  const most = amount(limit, capacity);
  const room = mayOwe > 0 ? `${most} + ${amount(limit, mayOwe)} that may wait` : most;
  return `${total} ${isOver ? '>' : '≤'} ${room}${note === undefined ? '' : `: ${note}`}`;
}

/**
 * A shared limit's decision in words: `27 used in this second, 7 borrowed while others lend: tenant b (30 per second);
 * its reservation of 20 is used up`.
 *
 * @param children  those of the limit whose states are known
 */
export function describeShare(
  limit: SharedLimit,
  { reason, level, used, borrowed, unspent, held }: ShareReport,
  children: readonly SharedChild[] = [],
): string {
  const child = limit.path[level - 1] ?? limit.path.at(-1);
  const reserve = currentReserve(limit, { used, borrowed, unspent });
  const isRate = limit.algorithm === 'fair_share';
  const spent = isRate ? `${used} used in this second` : `${used} ${used === 1 ? 'slot' : 'slots'} held`;
  const unit = isRate ? 'per second' : 'slots';
  switch (reason) {
    case 'passed':
      if (reserve === 0) return `${spent}, within its fair share`;
      if (borrowed === 0) return `${spent}, ${unspent} of its reservation left`;
      return `${spent}, ${borrowed} borrowed${lendersText(children, unit)}; its reservation of ${reserve} ${unspent === 0 ? 'is used up' : `has ${unspent} left`}`;
    case 'empty':
      return `${isRate ? `the limit of ${limit.requestsPerUnit} per second is` : 'all slots are'} used up by all ${limit.path[0]?.key ?? 'child'} values`;
    case 'held':
      return `${spent}; what is left, at most ${held}, is reserved for ${holdersText(children)}`;
    case 'priority':
      return `${spent}; what is left is for higher priorities than ${limit.threshold ?? 'stated'}`;
    case 'share':
      return `${spent}; this ${child?.key ?? 'child'} has used its fair share among those that ask`;
    case 'ceiling':
      return `this ${child?.key ?? 'child'} has reached its ceiling of ${child?.ceiling ?? 0} ${unit}`;
  }
}

/** What the last child on the path has reserved: of an adaptive limit, its part of the current slots. */
export function currentReserve(
  { algorithm, path }: SharedLimit,
  { used, borrowed, unspent }: Pick<ShareReport, 'used' | 'borrowed' | 'unspent'>,
): number {
  const { reserve = 0 } = path.at(-1) ?? {};
  return algorithm === 'adaptive' && reserve > 0 ? used - borrowed + unspent : reserve;
}

function lendersText(children: readonly SharedChild[], unit: string): string {
  const lenders = children.filter(({ own, lends }) => !own && lends > 0).map((one) => ({ one, hits: one.lends }));
  return lenders.length === 0 ? '' : ` while others lend: ${largestText(lenders, ` ${unit}`)}`;
}

function holdersText(children: readonly SharedChild[]): string {
  const holders = children.filter(({ own, idle, unspent }) => !own && !idle && unspent > 0);
  if (holders.length === 0) return 'active siblings';
  return largestText(holders.map((one) => ({ one, hits: one.unspent })));
}

/** `tenant b (30), tenant c (10) and 3 others`. */
function largestText(found: readonly { readonly one: SharedChild; readonly hits: number }[], unit = ''): string {
  const named = found.toSorted((a, b) => b.hits - a.hits).slice(0, MAX_NAMED);
  const texts = named.map(({ one: { key, value }, hits }) => `${key} ${value} (${hits}${unit})`);
  const more = found.length - named.length;
  const last = more === 0 ? texts.pop() : more === 1 ? '1 other' : `${more} others`;
  return texts.length === 0 ? `${last}` : `${texts.join(', ')} and ${last}`;
}

const MAX_NAMED = 2;

/** Why an adaptive limit is what it is. */
function adaptedText({ move, holdMs, baselineMs }: AdaptedReport): string {
  const times = holdMs > 0 ? ` (held for ${text(holdMs)} ms on average, ${text(baselineMs)} ms without a queue)` : '';
  return `${moveTexts[move]}${times}`;
}

const moveTexts: Readonly<Record<AdaptedReport['move'], string>> = {
  new: 'the minimum, as nothing has been measured',
  grown: 'raised, as it was used and requests did not queue',
  unused: 'kept, as it was not used',
  queueing: 'lowered, as requests queue upstream',
  failures: 'lowered, as requests failed',
  failing: 'kept, as requests fail at any number in flight',
  probing: 'halved for a moment, to measure the time without a queue',
  probed: 'set by the time without a queue, which was just measured',
  idle: 'halved after a time without requests',
};

/** A count, or an amount of a budget's currency. */
const amount = ({ currency }: Limit, count: number): string =>
  currency === undefined ? text(count) : showMoney(Math.round(count), currency);

/** At most two decimals. */
const text = (value: number): string => String(Math.round(value * 100) / 100);

const sumAll = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);

export function siteStanding(limit: SiteShareLimit, state: State | undefined, nowMs: number): SiteStanding {
  const { site } = describeCounter(limit, state, nowMs, { transfer: { kind: 'read' } });
  const { used = 0, given = [], taken = [] } = site ?? {};
  return { base: siteBase(limit), advance: siteAdvance(limit), used, lent: sumAll(given), borrowed: sumAll(taken) };
}

/** The terms of the hits that a site has used; borrowed hits are negative. */
function siteTerms({ of }: SiteShareLimit, { used, lent, borrowed }: SiteStanding): readonly string[] {
  if (of === 'token_bucket') return [String(used)];
  return [String(used), ...(lent > 0 ? [`${lent} lent`] : []), ...(borrowed > 0 ? [`-${borrowed} borrowed`] : [])];
}
