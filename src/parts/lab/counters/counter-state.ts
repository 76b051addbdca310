import { writeDuration } from '../../../base/texts.ts';
import { type Account, type Decision, type Drawing, type State, unitMs } from '../../../engine/algorithms/limit.ts';
import { showCount } from '../../../engine/algorithms/money.ts';
import type { Claim } from '../../../engine/holds/claim.ts';
import {
  algorithmFor,
  capacityAt,
  describeCounter,
  type Limit,
  limitsInFlight,
  type SharedLimit,
  unitOf,
} from '../../../engine/holds/limits.ts';
import { moveTexts, type Reports, type ShareReport } from '../../../engine/holds/reports.ts';
import type { CounterState, SharedChild } from '../answers/counters.ts';
import type { StateDrawing } from '../answers/explain.ts';

/** The state of a counter in whole hits. */
export function counterState(limit: Limit, state: State | undefined, nowMs: number, claim?: Claim): CounterState {
  const {
    hitsBefore: used,
    limitRemaining: remaining,
    durationUntilResetMs: resetsInMs,
    holds,
    reservation,
    share,
    penalty,
  } = describeCounter(limit, state, nowMs, claim);
  const adapted = holds?.adapted && { adapted: { ...holds.adapted, why: moveTexts[holds.adapted.move] } };
  const oldest = holds && { oldestMs: holds.oldestMs, ...adapted };
  const onHold = reservation && {
    onHold: reservation.held,
    open: reservation.open,
    oldestMs: reservation.oldestMs,
  };
  const blocked = penalty && { blockedMs: penalty.leftMs };
  const { currency } = limit;
  const unit = currency !== undefined && { currency };
  const child = share && (claim?.share ?? claim?.slotShare) && { share: pick(share) };
  const resets = { resetsInMs: state && unitOf(limit) !== 'allocated' ? Math.max(resetsInMs, 0) : 0 };
  return { used, remaining, ...resets, ...oldest, ...onHold, ...blocked, ...unit, ...child };
}

const pick = ({ used, borrowed, unspent, held }: ShareReport) => ({ used, borrowed, unspent, held });

/** The state of a counter, for drawing. */
export function drawState(limit: Limit, state: State | undefined, nowMs: number): StateDrawing {
  const { windowMs } = limit;
  const drawing: Drawing = algorithmFor(limit).draw?.(limit, state, nowMs) ?? { kind: 'window', windowMs };
  return { ...drawing, capacity: capacityAt(limit, describeCounter(limit, state, nowMs)) };
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

/**
 * The arithmetic behind a limit's decision: `7 × 0.35 + 3 + 1 = 6.45 ≤ 10`. Compares the hits used before and those of
 * the request with what the limit admits.
 *
 * @param isOver  the actual decision: the rounded sum may differ from it by a fraction
 */
export function writeArithmetic(limit: Limit, { state, nowMs, hits, claim = {} }: Standing, isOver: boolean): string {
  const described = describeCounter(limit, state, nowMs, claim);
  const whole = { terms: [showCount(limit, described.hitsBefore)], used: described.hitsBefore };
  const account: Account = algorithmFor(limit).account?.(limit, state, nowMs, claim) ?? whole;
  const { terms, used, mayOwe = 0, note } = account;
  const requested = hits === 0 ? [] : [showCount(limit, hits)];
  const sum = used + hits;
  const left = [...terms, ...requested];
  const summed = showCount(limit, sum);
  const total = left.length > 1 || summed !== left[0] ? `${left.join(' + ')} = ${summed}` : summed;
  const most = capacityText(limit, described);
  const room = mayOwe > 0 ? `${most} + ${showCount(limit, mayOwe)} that may wait` : most;
  return `${total} ${isOver ? '>' : '≤'} ${room}${note === undefined ? '' : `: ${note}`}`;
}

/** What a limit admits: `5`, with soft hits `5 + 3 soft`, of a bucket `burst of 20`. */
function capacityText(limit: Limit, reports: Reports): string {
  const { soft, requestsPerUnit } = limit;
  const capacity = capacityAt(limit, reports) - soft;
  const burst = 'burst' in limit && capacity === limit.burst && capacity !== requestsPerUnit ? 'burst of ' : '';
  return `${burst}${showCount(limit, capacity)}${soft > 0 ? ` + ${soft} soft` : ''}`;
}

/** The sum of a decision, without the state of its counter: `5 + 1 = 6 > 5`. */
export function writeSum(limit: Limit, hits: number, decision: Decision & Reports): string {
  const { hitsBefore, code } = decision;
  const [before, requested, sum] = [hitsBefore, hits, hitsBefore + hits].map((one) => showCount(limit, one));
  return `${before} + ${requested} = ${sum} ${code === 'OVER_LIMIT' ? '>' : '≤'} ${capacityText(limit, decision)}`;
}

/** What each source of an answer means. */
export const sourceTexts = {
  backend: 'hits are refunded',
  lease: 'answered from hits that this process has leased',
  refusal: 'refused from memory: the counter refused before and cannot have room yet',
  allow: 'the counters cannot be reached, and on_store_failure is allow',
  deny: 'the counters cannot be reached, and on_store_failure is deny',
  local: "the counters cannot be reached: counted on this process's share of the limit",
} as const;

/**
 * The same, with the block that applies to a limit: `3 + 1 = 4 > 3, which begins a block of 10m`.
 *
 * @param arithmetic  says nothing during a block
 */
export const withBlock = (arithmetic: string, { penalty }: Reports): string => {
  if (!penalty) return arithmetic;
  const block = `a block of ${writeDuration(penalty.lengthMs)}`;
  return penalty.isBegun ? `${arithmetic}, which begins ${block}` : `refused by ${block}`;
};

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
  const isRate = !limitsInFlight(limit);
  const spent = isRate ? `${used} used in this ${windowName(limit)}` : `${used} ${used === 1 ? 'slot' : 'slots'} held`;
  const unit = isRate ? `per ${windowName(limit)}` : 'slots';
  switch (reason) {
    case 'passed':
      if (reserve === 0) return `${spent}, within its fair share`;
      if (borrowed === 0) return `${spent}, ${unspent} of its reservation left`;
      return `${spent}, ${borrowed} borrowed${lendersText(children, unit)}; its reservation of ${reserve} ${unspent === 0 ? 'is used up' : `has ${unspent} left`}`;
    case 'empty':
      return `${isRate ? `the limit of ${limit.requestsPerUnit} ${unit} is` : 'all slots are'} used up by all ${limit.path[0]?.key ?? 'child'} values`;
    case 'held':
      if (held === 0) return `${spent}; what is left is kept for those that come next`;
      return `${spent}; what is left, at most ${held}, is reserved for ${holdersText(children)}`;
    case 'priority':
      return `${spent}; what is left is for higher priorities than ${limit.threshold ?? 'stated'}`;
    case 'share':
      return `${spent}; this ${child?.key ?? 'child'} has used its fair share among those that ask`;
    case 'ceiling':
      return `this ${child?.key ?? 'child'} has reached its ceiling of ${child?.ceiling ?? 0} ${unit}`;
  }
}

/** The window in which a shared limit counts what its children use. */
export const windowName = ({ windowMs }: Pick<Limit, 'windowMs'>): string =>
  windowMs === unitMs.SECOND ? 'second' : windowMs === unitMs.MINUTE ? 'minute' : writeDuration(windowMs);

/** What the last child on the path has reserved: of an adaptive limit, its part of the current slots. */
export function currentReserve(
  limit: SharedLimit,
  { used, borrowed, unspent }: Pick<ShareReport, 'used' | 'borrowed' | 'unspent'>,
): number {
  const { reserve = 0 } = limit.path.at(-1) ?? {};
  return limitsInFlight(limit) && reserve > 0 ? used - borrowed + unspent : reserve;
}

function lendersText(children: readonly SharedChild[], unit: string): string {
  const lenders = children.filter(({ own, lends }) => !own && lends > 0).map((one) => ({ one, hits: one.lends }));
  return lenders.length === 0 ? '' : ` while others lend: ${largestText(lenders, ` ${unit}`)}`;
}

function holdersText(children: readonly SharedChild[]): string {
  const holders = children.filter(({ own, unspent }) => !own && unspent > 0);
  if (holders.length === 0) return 'siblings';
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
