import { type State, unitMs } from '../algorithms/limit.ts';
import type { Claim } from './claim.ts';
import { type ChildNumbers, DEFAULT_SPARE, type Sharing } from './fair-share.ts';
import { insert } from './hold-list.ts';
import { type ShareReason, shareReasons } from './reports.ts';

/**
 * Numbers in a hold of a shared limit: holder, slots, expiry, and the children on the path of its request, from the top;
 * 0 for none. A child's call leaves marks, which hold no slots: minus the child, 0, expiry, its parent, its
 * reservation, and 0 if it is active, or, if it was refused, its weight and threshold.
 */
export const SHARED_SIZE = 6;

/** Comes before the script of requests in flight. */
export const slotShareScript = new URL('./slot-share.lua', import.meta.url);

/** How long a child is active after a call, and waits for slots after a refusal. */
const ACTIVE_MS = unitMs.SECOND;
/** Maximum number of children that wait for slots; more are not counted in shares. */
export const MAX_WAITING = 256;
const ALL = 100;
/** Factor of the weight in a mark. */
const WEIGHT = 128;
/** Numbers before those of the children, and of each child: see slot-share.lua. */
const FIRST_CHILD = 3;
const CHILD_NUMBERS = 4;

/** The part of a rate that a priority may use, as whole slots; at least one. */
export const thresholdSlots = (slots: number, threshold: number): number =>
  Math.max(Math.floor((slots * threshold) / ALL), 1);

/** The numbers of a claim's path, as slot-share.lua documents them; none if the limit is not shared. */
export function sharingArgs(
  { path, threshold: ofRule, spare = DEFAULT_SPARE }: Partial<Sharing>,
  claim: Claim,
): readonly number[] {
  if (!path) return [];
  const { children = [], threshold: stated } = claim.slotShare ?? {};
  const thresholds = [stated, ofRule, claim.threshold].filter((one) => one !== undefined);
  const depth = Math.min(path.length, children.length);
  const numbers = [thresholds.length > 0 ? Math.min(...thresholds) : 0, depth, spare];
  for (const [at, child] of children.slice(0, path.length).entries()) {
    const { reserve, weight, ceiling } = path[at] as ChildNumbers; // in range
    numbers.push(child, reserve, weight, ceiling);
  }
  return numbers;
}

/** Slots that are left to children that come next: at least one, unless there is no second one. */
const spareSlots = (slots: number, percent: number): number =>
  percent === 0 ? 0 : Math.min(Math.max(Math.floor((slots * percent) / ALL), 1), slots - 1);

/** The same parts of another number of slots. */
export function scalePath(path: readonly ChildNumbers[], slots: number, whole: number): readonly ChildNumbers[] {
  const part = (written: number): number => (written === 0 ? 0 : Math.max(Math.floor((written * slots) / whole), 1));
  return path.map((child) => ({ ...child, reserve: part(child.reserve), ceiling: part(child.ceiling) }));
}

/** The limit, or a child on the path of a request. */
interface SlotLevel {
  readonly id: number;
  /** Its reservation; 0 for none. */
  readonly reserve: number;
  readonly weight: number;
  readonly used: number;
  /** What is left of its reservation, or of the limit. */
  left: number;
  /** What is left of its ceiling; Infinity if it has none. */
  ceilingLeft: number;
  /** Unspent reservations of its active children, except the one on the path. */
  held: number;
  /** Whether it has used its share of what its parent does not reserve. */
  isAhead: boolean;
  /** Whether its reservation covers the slots. Set by `judge`. */
  pays: boolean;
}

/** The nodes on the path of a request, and what their siblings hold and wait for. */
interface SharedSlots {
  readonly levels: readonly SlotLevel[];
  /** That of the request's priority, in percent; 0 if it has none. */
  readonly threshold: number;
  /** What the request must leave to higher priorities. */
  readonly floor: number;
}

/**
 * Reads from the holds what a request for slots meets. Twin of slot-share.lua.
 *
 * Children divide the slots that are not reserved by weight. The divided slots are those of this child, of the children
 * that wait, and the free ones; a child with its part of them leaves a slot to each that waits. Its own children divide
 * that part. A child with more than half of its part leaves some slots to those that come next.
 *
 * @param wanted  further slots that are requested
 */
export function openSlots(slots: number, numbers: readonly number[], holds: State, wanted = 1): SharedSlots {
  const [threshold = 0, depth = 0, spare = 0] = numbers;
  const held = usedBy(holds, 0, 0).total;
  const free = slots - held;
  const floor = threshold === 0 ? 0 : slots - thresholdSlots(slots, threshold);
  const levels: SlotLevel[] = [newLevel([0, 0, 1, 0], held, free)];
  let [room, whole] = [free, slots]; // for the node, and what it may have
  let isNext = false;
  for (let at = 0; at <= depth; at++) {
    const parent = levels[at] as SlotLevel;
    const own = FIRST_CHILD + at * CHILD_NUMBERS;
    const child = at < depth ? numbers.slice(own, own + CHILD_NUMBERS) : [0, 0, 0, 0];
    const { used } = usedBy(holds, at, parent.id);
    const level = newLevel(child, used.get(child[0] ?? 0) ?? 0);
    const borrowed = Math.max(level.used - level.reserve, 0);
    let [waiting, weights, all] = [0, level.weight, borrowed]; // those that wait, and the sums with the own child
    for (let mark = 0; mark < holds.length; mark += SHARED_SIZE) {
      const [id = 0, taken, , above, reserve = 0, wants = 0] = holds.slice(mark, mark + SHARED_SIZE);
      if (taken !== 0 || above !== parent.id || id === -level.id) continue;
      const its = used.get(-id) ?? 0;
      if (wants === 0) parent.held += Math.max(reserve - its, 0);
      else if (held < thresholdSlots(slots, wants % WEIGHT)) {
        waiting++;
        weights += Math.floor(wants / WEIGHT);
        all += Math.max(its - reserve, 0);
      }
    }
    if (at === 0) room -= Math.max(parent.held + (depth > 0 ? spareSlots(slots, spare) : 0), floor);
    else if (parent.reserve > 0) room = Math.max(room, Math.min(free, parent.left - parent.held));
    room = Math.max(Math.min(room, parent.ceilingLeft - parent.held), 0);
    if (at === depth) break;
    level.isAhead = threshold !== ALL && room - wanted < waiting && borrowed * weights >= level.weight * (all + room);
    if (waiting > 0) whole = Math.min(whole, level.reserve + Math.floor((level.weight * (all + room)) / weights));
    isNext = isNext || level.used + wanted <= Math.max(Math.floor(whole / 2), 1);
    if (waiting > 0) room = Math.min(room, Math.max(whole - level.used, 0));
    levels.push(level);
  }
  if (depth > 0 && !isNext) (levels[0] as SlotLevel).held += spareSlots(slots, spare);
  return { levels, threshold, floor };
}

function newLevel(
  [id = 0, reserve = 0, weight = 0, ceiling = 0]: readonly number[],
  used: number,
  left = reserve - used,
): SlotLevel {
  const ceilingLeft = ceiling > 0 ? ceiling - used : Number.POSITIVE_INFINITY;
  return { id, reserve, weight, used, left, ceilingLeft, held: 0, isAhead: false, pays: false };
}

/** The slots of each child of a node, and of all of them. @param at  the number of levels above the children */
function usedBy(holds: State, at: number, parent: number) {
  const used = new Map<number, number>();
  let total = 0;
  for (let hold = 0; hold < holds.length; hold += SHARED_SIZE) {
    const slots = holds[hold + 1] ?? 0;
    if (slots === 0 || (at > 0 && holds[hold + 2 + at] !== parent)) continue;
    const child = holds[hold + 3 + at] ?? 0;
    used.set(child, (used.get(child) ?? 0) + slots);
    total += slots;
  }
  return { used, total };
}

/** Marks the children on the path as active, and after a refusal as waiting for slots where it was decided or below. */
export function markCall(
  holds: number[],
  { levels, threshold }: SharedSlots,
  [reason, at]: Judgement,
  nowMs: number,
): void {
  const firstWaiting = reason === 0 ? levels.length : Math.max(at + (reason === CEILING ? 1 : 0), 1);
  for (let level = 1; level < levels.length; level++) {
    const { id, reserve, weight } = levels[level] as SlotLevel;
    const parent = (levels[level - 1] as SlotLevel).id;
    if (reserve > 0) putMark(holds, [-id, 0, nowMs + ACTIVE_MS, parent, reserve, 0]);
    if (level < firstWaiting) continue;
    putMark(holds, [-id, 0, nowMs + ACTIVE_MS, parent, reserve, weight * WEIGHT + (threshold === 0 ? ALL : threshold)]);
  }
}

/** Replaces the child's mark of the same kind. */
function putMark(holds: number[], mark: readonly [number, number, number, ...number[]]): void {
  const isWaiting = (mark[5] ?? 0) > 0;
  let waiting = 0;
  for (let at = 0; at < holds.length; at += SHARED_SIZE) {
    if (holds[at + 1] !== 0 || (holds[at + 5] ?? 0) > 0 !== isWaiting) continue;
    waiting++;
    if (holds[at] !== mark[0]) continue;
    holds.splice(at, SHARED_SIZE);
    waiting = 0;
    break;
  }
  if (!isWaiting || waiting < MAX_WAITING) insert(holds, mark);
}

/** Reason, level; slots of the child, those beyond its reservation, what is left of it; held for others; room. */
export function reportShare({ levels, floor }: SharedSlots, [reason, at]: Judgement): State {
  const { used, reserve } = levels.at(-1) as SlotLevel;
  const isChild = levels.length > 1;
  const own = isChild ? used : 0;
  const held = isChild ? (levels[0]?.held ?? 0) : 0;
  return [reason, at, own, Math.max(own - reserve, 0), unspent(levels), held, findRoom(levels, floor)];
}

/** Whether a child has called in the last second. */
export const hasMark = (holds: State, child: number, nowMs: number): boolean =>
  holds.some((id, at) => at % SHARED_SIZE === 0 && id === -child && (holds[at + 2] ?? 0) > nowMs);

export type Judgement = readonly [reason: number, level: number];
export const ACCEPTED: Judgement = [0, 0];

const reasonNumber = (reason: ShareReason): number => shareReasons.indexOf(reason);
const EMPTY = reasonNumber('empty');
const HELD = reasonNumber('held');
const PRIORITY = reasonNumber('priority');
const SHARE = reasonNumber('share');
export const CEILING = reasonNumber('ceiling');

/**
 * Decides a request for slots; if it is refused, why, and at which level.
 *
 * @param levels  the limit, then the children on the path
 * @param floor   what the request must leave to higher priorities
 */
export function judge(levels: readonly SlotLevel[], wanted: number, floor: number): Judgement {
  let isPaid = false;
  for (let at = levels.length - 1; at > 0; at--) {
    const level = levels[at] as SlotLevel; // in range
    isPaid = level.reserve > 0 && level.left - wanted >= (isPaid ? 0 : level.held);
    level.pays = isPaid;
  }
  const { left, held } = levels[0] as SlotLevel; // there always is a limit
  const room = left - wanted;
  if (room < 0) return [EMPTY, 0];
  if (!isPaid && room < held) return [HELD, 0];
  if (!isPaid && room < floor) return [PRIORITY, 0];
  for (let at = 1; at < levels.length; at++) {
    const { isAhead, pays } = levels[at] as SlotLevel;
    if (isAhead && !pays) return [SHARE, at];
  }
  for (let at = 1; at < levels.length; at++) {
    const level = levels[at] as SlotLevel;
    const kept = levels[at + 1]?.pays ? 0 : level.held;
    if (level.ceilingLeft < wanted + kept) return [CEILING, at];
  }
  return ACCEPTED;
}

/** What the last child on the path may still use, without the test of its share. */
function findRoom(levels: readonly SlotLevel[], floor: number): number {
  const [{ left, held }] = levels as readonly [SlotLevel];
  const own = unspent(levels);
  let room = Math.min(Math.max(left, 0), Math.max(own, left - Math.max(held, floor), 0));
  for (let at = 1; at < levels.length; at++) room = Math.min(room, Math.max((levels[at] as SlotLevel).ceilingLeft, 0));
  return room;
}

/** What is left of the reservation of the last child on the path. */
function unspent(levels: readonly SlotLevel[]): number {
  const { reserve, left } = levels.at(-1) as SlotLevel;
  return levels.length > 1 && reserve > 0 ? Math.max(left, 0) : 0;
}
