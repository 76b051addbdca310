import type { State } from '../../engine/algorithms/limit.ts';
import type { Claim } from '../../engine/holds/claim.ts';
import { type HoldList, insertHold, removeHold } from '../../engine/holds/hold-list.ts';
import type { ChildNumbers, Sharing } from '../../engine/holds/sharing.ts';
import { DEFAULT_SPARE } from './fair-share.ts';

/**
 * Numbers in a hold of a shared limit: holder, slots, expiry, and the children on the path of its request, from the top;
 * 0 for none. A child's call leaves marks, which hold no slots: minus the child, 0, expiry, its parent, its
 * reservation, and 0 if it is active, or, if it was refused, its weight and threshold.
 */
export const SHARED_SIZE = 6;

/** How long a child is active after a call, and waits for slots after a refusal. */
const ACTIVE_MS = 1_000;
/** Maximum number of children that wait for slots; more are not counted in shares. */
export const MAX_WAITING = 256;
const ALL = 100;
/** More than any slots. */
const NO_CEILING = 9_007_199_254_740_991;
/** Factor of the weight in a mark. */
const WEIGHT = 128;
/** Numbers of each child on a path. */
export const CHILD_NUMBERS = 4;

/** The part of a rate that a priority may use, as whole slots; at least one. */
export const thresholdSlots = (slots: number, threshold: number): number =>
  Math.max(Math.floor((slots * threshold) / ALL), 1);

/** The numbers of a shared limit and of the children on the path of a request. */
export interface SharedSlotNumbers {
  readonly slots: number;
  readonly windowMs: number;
  /** `ANONYMOUS` for none. */
  readonly holder: number;
  /** The priority's part of the slots, in percent; 0: all. */
  readonly threshold: number;
  /** The number of children on the path. */
  readonly depth: number;
  /** Percentage of the slots that is left to children that come next. */
  readonly spare: number;
  /** Of each child, from the top: its id, reservation, weight and ceiling. */
  readonly children: number[];
}

/** The numbers that follow from the children on the path of a claim. */
export function pathNumbers(
  { path, threshold: ofRule, spare = DEFAULT_SPARE }: Sharing,
  claim: Claim | undefined,
): Pick<SharedSlotNumbers, 'threshold' | 'depth' | 'spare' | 'children'> {
  const { children: ids = [], threshold: stated } = claim?.slotShare ?? {};
  const thresholds = [stated, ofRule, claim?.threshold].filter((one) => one !== undefined);
  const children = path.slice(0, ids.length).flatMap(({ reserve, weight, ceiling }, at) => [
    ids[at] ?? 0, // in range
    reserve,
    weight,
    ceiling,
  ]);
  const threshold = thresholds.length > 0 ? Math.min(...thresholds) : 0;
  return { threshold, depth: children.length / CHILD_NUMBERS, spare, children };
}

/** The same part of another number of slots. */
export const scalePart = (written: number, slots: number, whole: number): number =>
  written === 0 ? 0 : Math.max(Math.floor((written * slots) / whole), 1);

export const scalePath = (path: readonly ChildNumbers[], slots: number, whole: number): readonly ChildNumbers[] =>
  path.map((child) => ({
    ...child,
    reserve: scalePart(child.reserve, slots, whole),
    ceiling: scalePart(child.ceiling, slots, whole),
  }));

/** The shared limit, or a child on the path of a request. */
interface SlotLevel {
  readonly id: number;
  readonly weight: number;
  /** Its reservation; 0 for none. */
  readonly reserve: number;
  /** What is left of its reservation, or of the limit. */
  left: number;
  /** What is left of its ceiling. */
  ceilingLeft: number;
  /** Unspent reservations of its active children, except the one on the path. */
  held: number;
  /** Whether it has used its share of what its parent does not reserve. */
  isAhead: boolean;
  /** Whether its reservation covers the slots. */
  pays: boolean;
}

/** The children of a node that wait for slots. */
interface Waiting {
  count: number;
  weights: number;
  /** Their slots beyond their reservations. */
  slots: number;
}

/** Slots that are left to children that come next: at least one, unless there is no second one. */
function spareSlots(limit: SharedSlotNumbers): number {
  if (limit.spare === 0 || limit.depth === 0) return 0;
  return Math.min(Math.max(Math.floor((limit.slots * limit.spare) / ALL), 1), limit.slots - 1);
}

/** The nodes on the path of a request, and what their siblings hold and wait for. */
interface SharedSlots {
  readonly levels: SlotLevel[];
  /** What the request must leave to higher priorities. */
  readonly floor: number;
}

/**
 * Reads from the holds what a request for slots meets.
 *
 * Children divide the slots that are not reserved by weight. The divided slots are those of this child, of the children
 * that wait, and the free ones; a child with its part of them leaves a slot to each that waits. Its own children divide
 * that part. A child with more than half of its part leaves some slots to those that come next.
 *
 * @param wanted  further slots that are requested
 */
function openSlots(limit: SharedSlotNumbers, holds: HoldList, wanted: number): SharedSlots {
  const slots = limit.slots;
  const depth = limit.depth;
  const held = holds.held;
  const free = slots - held;
  const floor = limit.threshold === 0 ? 0 : slots - thresholdSlots(slots, limit.threshold);
  const levels: SlotLevel[] = [newLevel(0, 0, 1, 0, held)];
  const waiting: Waiting = { count: 0, weights: 0, slots: 0 };
  let parent = levels[0] as SlotLevel; // the limit
  parent.left = free;
  let room = free; // for the node
  let most = slots; // what the node may have
  let isNext = false;
  for (let at = 0; at <= depth; at++) {
    const taken = usedBy(holds, at, parent.id);
    const first = at * CHILD_NUMBERS;
    const id = at < depth ? (limit.children[first] ?? 0) : 0;
    waiting.count = 0;
    waiting.weights = 0;
    waiting.slots = 0;
    countWaiting(waiting, slots, holds, held, parent, id, taken);
    if (at === 0) room -= Math.max(parent.held + spareSlots(limit), floor);
    else if (parent.reserve > 0) room = Math.max(room, Math.min(free, parent.left - parent.held));
    room = Math.max(Math.min(room, parent.ceilingLeft - parent.held), 0);
    if (at < depth) {
      const used = taken[id] ?? 0;
      const ceiling = limit.children[first + 3] ?? 0;
      const level = newLevel(id, limit.children[first + 1] ?? 0, limit.children[first + 2] ?? 0, ceiling, used);
      const borrowed = Math.max(-level.left, 0);
      const whole = borrowed + waiting.slots + room;
      level.isAhead =
        limit.threshold !== ALL &&
        (waiting.count > 0 || room < wanted) &&
        borrowed * (level.weight + waiting.weights) >= level.weight * whole;
      if (waiting.count > 0)
        most = Math.min(most, level.reserve + Math.floor((level.weight * whole) / (level.weight + waiting.weights)));
      isNext = isNext || used + wanted <= Math.max(Math.floor(most / 2), 1);
      if (waiting.count > 0) room = Math.min(room, Math.max(most - used, 0));
      levels[at + 1] = level;
      parent = level;
    }
  }
  const top = levels[0] as SlotLevel; // the limit
  if (!isNext) top.held += spareSlots(limit);
  return { levels, floor };
}

/** Counts the children that wait for slots, except one, and what active ones have reserved. */
function countWaiting(
  waiting: Waiting,
  slots: number,
  holds: HoldList,
  held: number,
  parent: SlotLevel,
  except: number,
  used: Record<number, number>,
): void {
  const length = holds.length;
  for (let mark = holds.live; mark < length; mark += SHARED_SIZE) {
    if (holds[mark + 1] === 0 && holds[mark + 3] === parent.id && holds[mark] !== -except) {
      const its = used[-(holds[mark] ?? 0)] ?? 0;
      const reserve = holds[mark + 4] ?? 0;
      const wants = holds[mark + 5] ?? 0;
      const threshold = wants % WEIGHT; // never negative
      if (wants === 0) parent.held += Math.max(reserve - its, 0);
      else if (held < thresholdSlots(slots, threshold)) {
        waiting.count++;
        waiting.weights += Math.floor(wants / WEIGHT);
        waiting.slots += Math.max(its - reserve, 0);
      }
    }
  }
}

function newLevel(id: number, reserve: number, weight: number, ceiling: number, used: number): SlotLevel {
  const ceilingLeft = ceiling > 0 ? ceiling - used : NO_CEILING;
  return { id, reserve, weight, left: reserve - used, ceilingLeft, held: 0, isAhead: false, pays: false };
}

/** The slots of each child of a node. @param at  the number of levels above the children */
function usedBy(holds: HoldList, at: number, parent: number): Record<number, number> {
  const used: Record<number, number> = {};
  const length = holds.length;
  for (let hold = holds.live; hold < length; hold += SHARED_SIZE) {
    const taken = holds[hold + 1] ?? 0;
    if (taken > 0 && (at === 0 || holds[hold + 2 + at] === parent)) {
      const child = holds[hold + 3 + at] ?? 0;
      used[child] = (used[child] ?? 0) + taken;
    }
  }
  return used;
}

export type Judgement = readonly [reason: number, level: number];
export const ACCEPTED: Judgement = [0, 0];

/** Places in `shareReasons`. */
const EMPTY = 1;
const HELD = 2;
const PRIORITY = 3;
const SHARE = 4;
export const CEILING = 5;

/** Decides a request for further slots; if it is refused, why, and at which level. */
export function judge(limit: SharedSlotNumbers, holds: HoldList, wanted: number): Judgement {
  const shared = openSlots(limit, holds, wanted);
  const levels = shared.levels;
  const count = levels.length;
  let isPaid = false;
  for (let at = count - 1; at > 0; at--) {
    const level = levels[at] as SlotLevel; // in range
    isPaid = level.reserve > 0 && level.left - wanted >= (isPaid ? 0 : level.held);
    level.pays = isPaid;
  }
  const whole = levels[0] as SlotLevel; // there always is a limit
  const room = whole.left - wanted;
  if (room < 0) return [EMPTY, 0];
  if (!isPaid && room < whole.held) return [HELD, 0];
  if (!isPaid && room < shared.floor) return [PRIORITY, 0];
  for (let at = 1; at < count; at++) {
    const level = levels[at] as SlotLevel;
    if (level.isAhead && !level.pays) return [SHARE, at];
  }
  for (let at = 1; at < count; at++) {
    const level = levels[at] as SlotLevel;
    const isKept = at + 1 === count || !(levels[at + 1] as SlotLevel).pays;
    if (level.ceilingLeft < wanted + (isKept ? level.held : 0)) return [CEILING, at];
  }
  return ACCEPTED;
}

/** What the last child on the path may still use, without the test of its share. */
function findRoom(levels: readonly SlotLevel[], floor: number): number {
  const count = levels.length;
  const whole = levels[0] as SlotLevel; // there always is a limit
  const left = whole.left;
  let room = Math.min(Math.max(left, 0), Math.max(unspent(levels), left - Math.max(whole.held, floor), 0));
  for (let at = 1; at < count; at++) room = Math.min(room, Math.max((levels[at] as SlotLevel).ceilingLeft, 0));
  return room;
}

/** What is left of the reservation of the last child on the path. */
function unspent(levels: readonly SlotLevel[]): number {
  const last = levels[levels.length - 1] as SlotLevel;
  return levels.length > 1 && last.reserve > 0 ? Math.max(last.left, 0) : 0;
}

/** Marks the children on the path as active, and after a refusal as waiting for slots where it was decided or below. */
export function markCall(limit: SharedSlotNumbers, holds: HoldList, judgement: Judgement, nowMs: number): void {
  const depth = limit.depth;
  const threshold = limit.threshold === 0 ? ALL : limit.threshold;
  const reason = judgement[0];
  const firstWaiting = reason === 0 ? depth + 1 : Math.max(judgement[1] + (reason === CEILING ? 1 : 0), 1);
  let parent = 0;
  for (let level = 1; level <= depth; level++) {
    const first = (level - 1) * CHILD_NUMBERS;
    const id = limit.children[first] ?? 0;
    const reserve = limit.children[first + 1] ?? 0;
    const weight = limit.children[first + 2] ?? 0;
    if (reserve > 0) putMark(holds, id, nowMs + ACTIVE_MS, parent, reserve, 0);
    if (level >= firstWaiting) putMark(holds, id, nowMs + ACTIVE_MS, parent, reserve, weight * WEIGHT + threshold);
    parent = id;
  }
}

/** The children on the path have what they waited for, unless children of theirs wait. */
export function stopWaiting(limit: SharedSlotNumbers, holds: HoldList): void {
  for (let level = limit.depth; level > 0; level--) {
    const id = limit.children[(level - 1) * CHILD_NUMBERS] ?? 0;
    const length = holds.length;
    let isWaiting = false;
    for (let at = holds.live; at < length; at += SHARED_SIZE) {
      if (holds[at + 1] === 0 && (holds[at + 5] ?? 0) > 0 && holds[at + 3] === id) isWaiting = true;
    }
    if (isWaiting) return;
    removeMark(holds, id, true);
  }
}

/** Replaces the child's mark of the same kind. */
function putMark(
  holds: HoldList,
  child: number,
  untilMs: number,
  parent: number,
  reserve: number,
  wants: number,
): void {
  const others = removeMark(holds, child, wants > 0);
  if (wants > 0 && others >= MAX_WAITING) return;
  const place = insertHold(holds, SHARED_SIZE, -child, 0, untilMs);
  holds[place + 3] = parent;
  holds[place + 4] = reserve;
  holds[place + 5] = wants;
}

/** @returns how many marks of the same kind there are, if the child has none */
function removeMark(holds: HoldList, child: number, isWaiting: boolean): number {
  const length = holds.length;
  let count = 0;
  for (let at = holds.live; at < length; at += SHARED_SIZE) {
    if (holds[at + 1] === 0 && (holds[at + 5] ?? 0) > 0 === isWaiting) {
      count++;
      if (holds[at] === -child) {
        removeHold(holds, SHARED_SIZE, at);
        return 0;
      }
    }
  }
  return count;
}

/** Adds to a report: reason, level; slots of the child, those beyond its reservation, its rest; held for others; room. */
export function reportShare(limit: SharedSlotNumbers, holds: HoldList, judgement: Judgement, report: number[]): void {
  const shared = openSlots(limit, holds, 1);
  const levels = shared.levels;
  const last = levels[levels.length - 1] as SlotLevel; // there always is a limit
  const isChild = levels.length > 1;
  const own = isChild ? last.reserve - last.left : 0;
  const first = report.length;
  report[first] = judgement[0];
  report[first + 1] = judgement[1];
  report[first + 2] = own;
  report[first + 3] = Math.max(own - (isChild ? last.reserve : 0), 0);
  report[first + 4] = unspent(levels);
  report[first + 5] = isChild ? (levels[0] as SlotLevel).held : 0;
  report[first + 6] = findRoom(levels, shared.floor);
}

/** Whether a child has called in the last second. */
export const hasMark = (holds: State, child: number, nowMs: number): boolean =>
  holds.some((id, at) => at % SHARED_SIZE === 0 && id === -child && (holds[at + 2] ?? 0) > nowMs);
