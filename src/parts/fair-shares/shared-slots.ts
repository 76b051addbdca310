import {
  type AnyLimit,
  type Charge,
  type Decision,
  hitsToFit,
  type Outcome,
  type State,
  type Step,
} from '../../engine/algorithms/limit.ts';
import { steppedOpen } from '../../engine/algorithms/stepped.ts';
import { windowed, windowSize } from '../../engine/algorithms/window.ts';
import { ANONYMOUS, type Claim } from '../../engine/holds/claim.ts';
import { type Counting, peek } from '../../engine/holds/counting.ts';
import {
  changeSlots,
  describeSlots,
  finishSlots,
  type Holds,
  mostHolds,
  openHolds,
  ownSlots,
  slotsOf,
  slotted,
  takeBack,
} from '../../engine/holds/in-flight.ts';
import { type Reports, shareReasons } from '../../engine/holds/reports.ts';
import type { Sharing } from '../../engine/holds/sharing.ts';
import { compiled } from '../../engine/lua/compiled.ts';
import { listSharing, writeSharing } from './fair-share.ts';
import {
  ACCEPTED,
  CHILD_NUMBERS,
  hasMark,
  type Judgement,
  judge,
  MAX_WAITING,
  markCall,
  pathNumbers,
  reportShare,
  SHARED_SIZE,
  type SharedSlotNumbers,
  stopWaiting,
} from './slot-share.ts';

/** Slots that children share. `windowMs` is the ttl. */
export interface SharedSlotsLimit extends AnyLimit, Sharing {
  readonly algorithm: 'shared_slots';
}

const numbers = (limit: SharedSlotsLimit, _nowMs: number, claim: Claim | undefined): SharedSlotNumbers => ({
  slots: windowSize(limit),
  windowMs: limit.windowMs,
  holder: claim?.holder ?? ANONYMOUS,
  ...pathNumbers(limit, claim),
});

export function open(limit: SharedSlotNumbers, list: number[], nowMs: number): Holds {
  return openHolds(list, SHARED_SIZE, limit.windowMs, nowMs);
}

/**
 * Requests in flight whose slots children share.
 * State: as in in-flight.ts, with holds and marks of children as `SHARED_SIZE` says.
 * Report: as in in-flight.ts, then that of `reportShare`.
 */
export function step(limit: SharedSlotNumbers, holds: Holds, nowMs: number, hits: number, charge: Charge): Step {
  const before = holds.held;
  const expired = holds.expired;
  const own = slotsOf(holds, SHARED_SIZE, limit.holder);
  const requested = hitsToFit(hits);
  const isHeld = hits < 0 || requested <= own;
  const judgement = isHeld ? ACCEPTED : judge(limit, holds, requested - own);
  const accepted = judgement[0] === 0;
  if (charge && hits !== 0) {
    const isTaken = charge === 'regardless' || accepted;
    nameChildren(limit, holds, changeSlots(limit, holds, SHARED_SIZE, nowMs, hits, own, isTaken));
    markCall(limit, holds, judgement, nowMs);
    if (accepted && !isHeld) stopWaiting(limit, holds);
  }
  return finishStep(limit, holds, nowMs, before, requested, expired, judgement);
}

export function refund(limit: SharedSlotNumbers, holds: Holds, nowMs: number, hits: number, chargedAtMs: number): Step {
  const before = holds.held;
  takeBack(limit, holds, SHARED_SIZE, hits, chargedAtMs);
  return finishStep(limit, holds, nowMs, before, 1, 0, ACCEPTED);
}

/** Writes the children on the path into a hold. @param place  its index; -1 for none */
function nameChildren(limit: SharedSlotNumbers, holds: Holds, place: number): void {
  const most = place < 0 ? 0 : SHARED_SIZE - 3;
  for (let at = 0; at < most; at++)
    holds[place + 3 + at] = at < limit.depth ? (limit.children[CHILD_NUMBERS * at] ?? 0) : 0;
}

function finishStep(
  limit: SharedSlotNumbers,
  holds: Holds,
  nowMs: number,
  before: number,
  requested: number,
  expired: number,
  judgement: Judgement,
): Step {
  const accepted = judgement[0] === 0;
  const next: Step = finishSlots(limit, holds, SHARED_SIZE, nowMs, before, accepted, requested, expired);
  const report = next.report as number[]; // it has one
  reportShare(limit, holds, judgement, report);
  return { accepted, state: next.state, ttlMs: next.ttlMs, report };
}

/** Numbers in a report before those of `reportShare`. */
const SLOTS_REPORT = 6;

/** The decision of a step on shared slots, from its report. */
export function describeShared(
  limit: AnyLimit & Pick<Sharing, 'path'>,
  report: State,
  nowMs: number,
  outcome: Outcome,
  claim?: Claim,
): Decision & Reports {
  const [reason = 0, level = 0, used = 0, borrowed = 0, unspent = 0, held = 0, room = 0] = report.slice(SLOTS_REPORT);
  const most = Math.min(windowSize(limit), ...limit.path.map(({ ceiling }) => ceiling || windowSize(limit)));
  return {
    ...describeSlots(limit, report, nowMs, outcome, { claim, most }),
    limitRemaining: room,
    share: { reason: shareReasons[reason] ?? 'passed', level, used, borrowed, unspent, held },
  };
}

/** Maximum number of integers in a list of holds of shared slots. */
export const longestShared = (limit: AnyLimit, claim: Claim | undefined): number =>
  SHARED_SIZE * (mostHolds(limit, claim) + MAX_WAITING);

/** The row of shared slots: rules have `share` beside `algorithm: in_flight`. */
export const sharedSlots: Counting<SharedSlotsLimit> = {
  ...slotted,
  named: () => 'in_flight',
  write: (limit) => [`ttl: ${limit.windowMs}ms`, ...writeSharing(limit)],
  list: (limit) => ({ ttl_ms: limit.windowMs, ...listSharing(limit) }),
  capacity: windowed.capacity,
  longestMemoryMs: windowed.longestMemoryMs,
  account(limit, state, nowMs, claim) {
    const { hitsBefore } = peek(sharedSlots, limit, state, nowMs, claim);
    const used = hitsBefore - ownSlots(claim.holder ?? ANONYMOUS, state, nowMs, SHARED_SIZE);
    return { terms: [String(used)], used };
  },
  isActiveChild: (state, nowMs, child) => hasMark(state ?? [], child, nowMs),
  ...steppedOpen({ compiled: compiled.shared_slots, numbers, open, step, refund }),
  describe: describeShared,
  state: { longest: longestShared, keepsEntries: true },
};
