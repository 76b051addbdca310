import { type Charge, hitsToFit, MAX_COUNT, type State, type Step } from '../../engine/algorithms/limit.ts';
import { NODE_NUMBERS, type ShareNode } from '../../engine/holds/nodes.ts';

/** The numbers of a shared limit and of the children on the path of hits. Levels are hits times milliseconds. */
export interface ShareNumbers {
  /** Hits per window; more than 0. */
  readonly rate: number;
  /** Also what a hit takes of a bucket. */
  readonly windowMs: number;
  /** The full bucket, and the time in which it is refilled. */
  readonly capacity: number;
  readonly refillMs: number;
  /** How long a child is remembered after its last call. */
  readonly forgetMs: number;
  /** The sum of the reservations of its children. */
  readonly reserved: number;
  /** Percentage that is kept for children that come next, and what that is of the limit's bucket. */
  readonly spare: number;
  readonly kept: number;
  /** What the hits leave to higher priorities. */
  readonly floor: number;
  /** 1 for hits that are not held to the fair share; else 0. */
  readonly critical: number;
  /** The number of children on the path. */
  readonly depth: number;
  /**
   * Of each child: reservation, weight, ceiling (0 for none), the sum of the reservations of its children, and what
   * it gets of a unit of its parent's virtual time.
   */
  readonly children: readonly number[];
}

/** Numbers of a child; their places, from the first one of the next child. */
const CHILD_NUMBERS = 5;
const RESERVE = -5;
const WEIGHT = -4;
const CEILING = -3;
const RESERVED = -2;
const PER_UNIT = -1;

/*
 * The places of the numbers of a node, the limit or a child: a bucket that hits are taken from, and the clock by which
 * its children fill theirs.
 */
export const AT = 0; // time of the last step; 0 for a new node
export const LEVEL = 1; // what is left in the bucket
const GUARD = 2; // what is left in that of the reservation
const PAID = 3; // the parent's virtual time up to which the share has been filled in
const CLAIMED_IN = 4; // the last window in which it was refused for its share
const USED = 5; // hits in this window
const BORROWED = 6; // of these, the hits that its reservation did not cover
const VIRTUAL = 7; // virtual time of its children; 0 if it never had any
const SPEED = 8; // how fast that passes
const OWED = 9; // hits of children with less than their share that virtual time must still make up for; at most 0
const CLAIMS = 10; // weights of the children that were refused for their share in this window
const CLAIMS_BEFORE = 11; // and of those only refused in the one before
const LENT = 12; // what its children have used of their reservations, and that is not refilled yet; at least this much

/** Virtual time that passes in a millisecond if a child of weight 1 may use the whole rate. */
export const UNITS = 100_000_000;
/** Longest virtual time, 2^52; it starts over then, and children are new. */
const MAX_VIRTUAL = 4_503_599_627_370_496;
/** Parts of the time in which the limit's bucket is refilled: what a child may save up while others wait, in its share. */
const LEAF_PART = 0.5;
const INNER_PART = 0.25;
/** Hits that a child may save up in addition. */
const SAVED_HITS = 4;
/** Maximum part of the bucket that is held for reservations. */
const HELD_PART = 0.5;
/** Maximum factor by which a full bucket speeds virtual time up, and an empty one slows it down. */
const FASTEST = 8;
const SLOWEST = 0.015_625;
/** A child whose bucket is fuller than this has all that its own children ask for. */
const SATISFIED = 0.6;

/** Places in `shareReasons`. */
const EMPTY = 1;
const HELD = 2;
const PRIORITY = 3;
const SHARE = 4;
const CAPPED = 5;

/** What is divided among children, besides what reservations of theirs and those that come next may use alone. */
interface Divided {
  readonly capacity: number;
  /** What its children leave to reservations of siblings, and besides to siblings that come next. */
  readonly held: number;
  readonly spare: number;
}

/** The bucket of a child on the path during a step. It has eight members: a table of more costs Redis twice as much. */
interface Level extends Divided {
  /** What it may use of each millisecond. */
  readonly perMs: number;
  readonly guardCapacity: number;
  /** Its ceiling is less than its share; the most hits that a ceiling lets pass at once. */
  readonly isCapped: boolean;
  readonly most: number;
  /** Its reservation covers the hits. */
  pays: boolean;
}

/** The nodes on the path of hits, and the decision about the hits. */
interface SharePath {
  /** The limit, then the children. */
  readonly nodes: ShareNode[];
  /** The buckets of the children. */
  readonly levels: (Level | false)[];
  /** The number of the present window. */
  readonly window: number;
  /** What the limit holds for reservations of other children. */
  held: number;
  /** Why and at which level the hits are refused, and the lowest level that lacks them; 0 if none does. */
  reason: number;
  at: number;
  lacking: number;
}

/** A step on the nodes of a path. */
interface NodesStep extends Omit<Step, 'state'> {
  readonly state: ShareNode[];
  readonly report: State;
}

/**
 * Fair shares: a token bucket that children, and their children, divide. A step reads and writes the limit and the
 * children on the path of the hits, and no other child.
 *
 * The algorithm is generalized processor sharing, with the hierarchy of H-WFQ. Each node is a bucket that is filled from
 * its parent's: with its reservation, and with its weight times the virtual time of its parent that has passed. Virtual
 * time passes as fast as what the node gets, less what children with less than their share use, divided by the weights
 * of the others: those that were refused for their share in this window or the last. The fuller the bucket, the faster,
 * so that what one of them leaves is not lost.
 *
 * A part of each bucket is kept for children that have more than half of theirs left and were not refused lately, and
 * one for hits that reservations cover.
 *
 * @param nodes   undefined for a new limit; changed in place if the hits are charged
 * @param nowMs   may run backwards; that refills nothing
 * @param hits    0 peeks, a negative number gives hits back
 * @param charge  false to leave the counter unchanged and only return the outcome
 * @see https://doi.org/10.1109/90.234856 (generalized processor sharing)
 * @see https://doi.org/10.1145/248156.248170 (hierarchical packet fair queueing)
 */
export function step(
  limit: ShareNumbers,
  nodes: ShareNode[] | undefined,
  nowMs: number,
  hits: number,
  charge: Charge,
): NodesStep {
  const isKept = charge !== false && hits !== 0;
  const path = openPath(limit, nodes !== undefined && isKept ? nodes : copyNodes(limit, nodes), nowMs);
  if (hits >= 0) judge(limit, path, hitsToFit(hits));
  if (charge && path.reason !== 0) claimShares(limit, path);
  if (isKept && (charge === 'regardless' || path.reason === 0)) take(limit, path, hits);
  return finishStep(limit, path, nowMs, isKept, nodes);
}

/** Gives back hits, as far as they are not refilled yet. */
export function refund(
  limit: ShareNumbers,
  nodes: ShareNode[] | undefined,
  nowMs: number,
  hits: number,
  chargedAtMs: number,
): NodesStep {
  const path = openPath(limit, copyNodes(limit, nodes), nowMs);
  const root = nodeAt(path, 0);
  const isKept = nodes !== undefined && root[LEVEL] < limit.capacity;
  const wanted = hits * limit.windowMs;
  const sinceMs = Math.max(root[AT] - chargedAtMs, 0);
  const depth = isKept ? limit.depth : 0;
  if (isKept) giveBack(root, wanted - Math.ceil(sinceMs * limit.rate), limit.capacity);
  for (let at = 1; at <= depth; at++) {
    const level = levelAt(path, at);
    const node = nodeAt(path, at);
    giveBack(node, wanted - Math.ceil(sinceMs * level.perMs), level.capacity);
    const guard = node[GUARD] + Math.max(wanted - sinceMs * numberOf(limit, at, RESERVE), 0);
    node[GUARD] = Math.min(guard, level.guardCapacity);
    node[USED] = Math.max(node[USED] - hits, 0);
  }
  return finishStep(limit, path, nowMs, isKept, nodes);
}

function giveBack(node: ShareNode, given: number, capacity: number): void {
  node[LEVEL] = Math.min(node[LEVEL] + Math.max(given, 0), capacity);
}

const nodeAt = (path: SharePath, at: number): ShareNode => path.nodes[at] as ShareNode; // in range
const levelAt = (path: SharePath, at: number): Level => path.levels[at - 1] as Level; // in range
const numberOf = (limit: ShareNumbers, at: number, place: number): number =>
  limit.children[at * CHILD_NUMBERS + place] ?? 0;

function copyNodes(limit: ShareNumbers, nodes: ShareNode[] | undefined): ShareNode[] {
  const copied: ShareNode[] = [];
  const depth = limit.depth;
  for (let at = 0; at <= depth; at++) {
    const copy: ShareNode = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const node = nodes === undefined ? copy : (nodes[at] as ShareNode); // in range
    for (let place = 0; place < NODE_NUMBERS; place++) copy[place] = node[place] ?? 0;
    copied[at] = copy;
  }
  return copied;
}

/** Fills the buckets of the nodes, which it changes, and advances the virtual time of each parent. */
export function openPath(limit: ShareNumbers, nodes: ShareNode[], nowMs: number): SharePath {
  const root = nodes[0] as ShareNode; // there always is a limit
  if (root[AT] === 0) {
    root[AT] = nowMs;
    root[LEVEL] = limit.capacity;
    root[SPEED] = UNITS;
  }
  root[LEVEL] = Math.min(root[LEVEL], limit.capacity);
  if (nowMs > root[AT]) fillLimit(limit, root, nowMs - root[AT]);
  const window = Math.floor(root[AT] / limit.windowMs);
  const most = Math.floor(limit.capacity * HELD_PART);
  const held = limit.reserved === 0 ? 0 : Math.min(holdFor(limit, root, limit.reserved, 0), most);
  // a list that grows costs Redis time
  const path: SharePath = { nodes, levels: [false, false, false], window, held, reason: 0, at: 0, lacking: 0 };
  const depth = limit.depth;
  for (let at = 1; at <= depth; at++) openChild(limit, path, at);
  if (path.held > 0 && depth > 0) path.held = Math.max(path.held - Math.max(nodeAt(path, 1)[GUARD], 0), 0);
  return path;
}

/** Fills the bucket of the limit: only for the first hit of a millisecond. */
function fillLimit(limit: ShareNumbers, node: ShareNode, sinceMs: number): void {
  const before = node[LEVEL];
  const got = sinceMs * limit.rate;
  const after = before + got;
  node[LEVEL] = Math.min(after, limit.capacity);
  node[AT] += sinceMs;
  beginWindow(limit, node, Math.floor(node[AT] / limit.windowMs), sinceMs);
  const held = Math.min(holdFor(limit, node, limit.reserved, sinceMs), limit.capacity * HELD_PART);
  const divided: Divided = { capacity: limit.capacity, held, spare: limit.kept };
  advance(limit, node, divided, (before + node[LEVEL]) / 2, got, sinceMs);
}

/** What the children of a node have not used of their reservations. @param sinceMs  in which they were refilled */
function holdFor(limit: ShareNumbers, node: ShareNode, reserved: number, sinceMs: number): number {
  node[LENT] = Math.max(node[LENT] - sinceMs * reserved, 0);
  return Math.max(Math.floor(reserved * limit.refillMs) - node[LENT], 0);
}

/**
 * Opens the bucket of a child, and fills it with what it has got since its last step. It is one function, and those that
 * are seldom needed are called seldom, since a call costs Redis as much as ten lines.
 *
 * @param at  the number of children down to it
 */
function openChild(limit: ShareNumbers, path: SharePath, at: number): void {
  const above = nodeAt(path, at - 1);
  const node = nodeAt(path, at);
  const isLeaf = at === limit.depth;
  const first = at * CHILD_NUMBERS;
  const reserve = limit.children[first + RESERVE] ?? 0;
  const ceiling = limit.children[first + CEILING] ?? 0;
  const reserved = limit.children[first + RESERVED] ?? 0;
  const perUnit = limit.children[first + PER_UNIT] ?? 0;
  const share = reserve + above[SPEED] * perUnit;
  const abovePerMs = at === 1 ? limit.rate : levelAt(path, at - 1).perMs;
  const mostPerMs = ceiling > 0 && ceiling < abovePerMs ? ceiling : abovePerMs;
  const perMs = Math.min(share, mostPerMs);
  const most = ceiling > 0 ? Math.max(Math.floor(ceiling * limit.refillMs), limit.windowMs) : limit.capacity;
  const saved = above[CLAIMS] + above[CLAIMS_BEFORE] === 0 ? 1 : isLeaf ? LEAF_PART : INNER_PART;
  const saves = Math.floor(perMs * limit.refillMs * saved) + SAVED_HITS * limit.windowMs;
  const capacity = Math.min(saves, most);
  const guardCapacity = reserve === 0 ? 0 : Math.max(Math.floor(reserve * limit.refillMs), limit.windowMs);
  if (above[AT] - node[AT] >= limit.forgetMs || node[PAID] > above[VIRTUAL])
    renew(node, above, capacity, guardCapacity);
  if (!isLeaf && node[VIRTUAL] === 0) {
    node[VIRTUAL] = 1;
    node[SPEED] = UNITS;
  }
  const sinceMs = above[AT] > node[AT] ? above[AT] - node[AT] : 0;
  const held = reserved === 0 ? 0 : holdFor(limit, node, reserved, sinceMs);
  const spare = isLeaf ? 0 : spareOf(limit, capacity);
  const isCapped = ceiling > 0 && share > ceiling;
  const level: Level = { perMs, capacity, guardCapacity, held, spare, isCapped, most, pays: false };
  path.levels[at - 1] = level;
  const before = Math.min(node[LEVEL], capacity);
  const virtual = above[VIRTUAL];
  const guard = node[GUARD] + reserve * sinceMs;
  const due = reserve * sinceMs + (virtual - node[PAID]) * perUnit;
  const got = Math.floor(ceiling > 0 ? Math.min(due, ceiling * sinceMs) : due);
  const shared = got - reserve * sinceMs;
  const paid = shared > 0 ? node[PAID] + Math.ceil(shared / perUnit) : node[PAID];
  const least = Math.max(virtual - Math.floor(capacity / perUnit), 0);
  node[PAID] = paid < least ? least : paid < virtual ? paid : virtual;
  node[GUARD] = Math.min(guard, guardCapacity);
  node[LEVEL] = before + got < capacity ? before + got : capacity;
  node[AT] = above[AT];
  if (sinceMs > 0) beginWindow(limit, node, path.window, sinceMs);
  if (sinceMs > 0 && node[VIRTUAL] > 0) advance(limit, node, level, (before + node[LEVEL]) / 2, got, sinceMs);
}

/** Makes a child new, with a full bucket. */
function renew(node: ShareNode, above: ShareNode, capacity: number, guardCapacity: number): void {
  for (let place = 0; place < NODE_NUMBERS; place++) node[place] = 0;
  node[AT] = above[AT];
  node[PAID] = above[VIRTUAL];
  node[LEVEL] = capacity;
  node[GUARD] = guardCapacity;
}

/** What is kept in a bucket for children that come next: at least a hit, unless the bucket has no second one. */
export function spareOf(limit: ShareNumbers, capacity: number): number {
  if (limit.spare === 0) return 0;
  const part = Math.floor((capacity * limit.spare) / 100);
  return Math.min(Math.max(limit.windowMs, part), Math.max(capacity - limit.windowMs, 0));
}

/** How full a bucket is above what is kept in it, from 0 to 1. */
function fillOf(divided: Divided, left: number): number {
  const capacity = divided.capacity;
  const kept = Math.min(divided.held, capacity * HELD_PART) + divided.spare;
  if (capacity <= kept) return 1;
  return Math.min(Math.max((left - kept) / (capacity - kept), 0), 1);
}

/** Starts the counts of a window, if it is not that of the last step. */
function beginWindow(limit: ShareNumbers, node: ShareNode, window: number, sinceMs: number): void {
  const startMs = window * limit.windowMs;
  const lastMs = node[AT] - sinceMs;
  if (lastMs >= startMs) return;
  node[CLAIMS_BEFORE] = lastMs >= startMs - limit.windowMs ? node[CLAIMS] : 0;
  node[CLAIMS] = 0;
  node[USED] = 0;
  node[BORROWED] = 0;
}

/** Advances the virtual time of the children. @param left  the mean level since the last step. @param got  since then */
function advance(
  limit: ShareNumbers,
  node: ShareNode,
  divided: Divided,
  left: number,
  got: number,
  sinceMs: number,
): void {
  const fill = fillOf(divided, left);
  const haste = fill < 1 ? Math.min(Math.max(fill / (1 - fill), SLOWEST), FASTEST) : FASTEST;
  const weights = node[CLAIMS] + node[CLAIMS_BEFORE];
  const rest = node[OWED] + got;
  node[OWED] = weights === 0 || rest > 0 ? 0 : Math.max(rest, -Math.floor(divided.capacity / 2));
  const each = weights === 0 ? got : Math.max(rest, 0) / weights;
  const longest = Math.min(Math.floor(UNITS * limit.refillMs), MAX_VIRTUAL);
  const passed = Math.min(Math.floor((haste * each * UNITS) / limit.rate), longest);
  node[VIRTUAL] = node[VIRTUAL] + passed < MAX_VIRTUAL ? node[VIRTUAL] + passed : 1;
  const change = Math.floor((passed - node[SPEED] * sinceMs) * Math.min(1 / sinceMs, 2 / limit.refillMs));
  node[SPEED] = Math.min(Math.max(node[SPEED] + change, 1), UNITS);
}

/** Decides hits: sets the reason and the level of a refusal, and the lowest level that lacks them. */
export function judge(limit: ShareNumbers, path: SharePath, hits: number): void {
  const wanted = hits * limit.windowMs;
  const isCritical = limit.critical === 1;
  let isPaid = false;
  let isNext = isCritical;
  let lacking = 0;
  let tooFew = 0;
  for (let at = limit.depth; at > 0; at--) {
    const level = levelAt(path, at);
    const node = nodeAt(path, at);
    if (wanted > level.most) tooFew = at;
    isPaid = numberOf(limit, at, RESERVE) > 0 && node[GUARD] - wanted >= (isPaid ? 0 : level.held);
    level.pays = isPaid;
    if (!isCritical && lacking === 0) {
      const left = node[LEVEL] - wanted;
      if (!isPaid && left < (isNext ? 0 : level.spare) && left < level.capacity - wanted) lacking = at;
      isNext = isNext || (left >= level.capacity / 2 && !isClaiming(path, node));
    }
  }
  const room = nodeAt(path, 0)[LEVEL] - wanted;
  const kept = isPaid ? 0 : isNext ? path.held : path.held + limit.kept;
  path.at = 0;
  path.lacking = lacking;
  path.reason = 0;
  if (room < 0) path.reason = EMPTY;
  else if (room < kept && room < limit.capacity - wanted) path.reason = HELD;
  else if (!isPaid && room < limit.floor) path.reason = PRIORITY;
  else if (tooFew > 0) {
    path.reason = CAPPED;
    path.at = tooFew;
    path.lacking = 0;
  } else if (lacking > 0) {
    path.reason = levelAt(path, lacking).isCapped ? CAPPED : SHARE;
    path.at = lacking;
  }
}

/** Whether a child was refused for its share in this window or in the one before. */
const isClaiming = (path: SharePath, node: ShareNode): boolean => path.window - node[CLAIMED_IN] <= 1;

/** Notes that the children on the path need more than their share: those up to the level that lacks the hits. */
function claimShares(limit: ShareNumbers, path: SharePath): void {
  const isUsedUp = path.reason === EMPTY || path.reason === HELD;
  const window = path.window;
  let at = isUsedUp ? limit.depth : path.lacking;
  while (at > 0) {
    const level = levelAt(path, at);
    const node = nodeAt(path, at);
    if (level.isCapped || (!isUsedUp && at < path.lacking && fillOf(level, node[LEVEL]) > SATISFIED)) return;
    const parent = nodeAt(path, at - 1);
    const weight = numberOf(limit, at, WEIGHT);
    if (node[CLAIMED_IN] !== window) {
      if (node[CLAIMED_IN] === window - 1) parent[CLAIMS_BEFORE] = Math.max(parent[CLAIMS_BEFORE] - weight, 0);
      parent[CLAIMS] = Math.min(parent[CLAIMS] + weight, MAX_COUNT);
      node[CLAIMED_IN] = window;
    }
    at--;
  }
}

/** Counts hits; negative ones are given back. */
function take(limit: ShareNumbers, path: SharePath, hits: number): void {
  const taken = hits * limit.windowMs;
  const depth = limit.depth;
  const root = nodeAt(path, 0);
  root[LEVEL] = bounded(root[LEVEL] - taken, limit.capacity);
  for (let at = 1; at <= depth; at++) {
    const level = levelAt(path, at);
    const node = nodeAt(path, at);
    const parent = nodeAt(path, at - 1);
    node[LEVEL] = bounded(node[LEVEL] - taken, level.capacity);
    node[USED] = counted(node[USED] + hits);
    if (!isClaiming(path, node)) parent[OWED] = bounded(parent[OWED] - taken, 0);
    if (level.pays) parent[LENT] = Math.min(parent[LENT] + taken, MAX_COUNT);
    if (level.pays || (hits < 0 && numberOf(limit, at, RESERVE) > 0))
      node[GUARD] = bounded(node[GUARD] - taken, level.guardCapacity);
    else node[BORROWED] = counted(node[BORROWED] + hits);
  }
}

const bounded = (level: number, most: number): number =>
  level < -MAX_COUNT ? -MAX_COUNT : level < most ? level : most;
const counted = (hits: number): number => (hits < 0 ? 0 : hits < MAX_COUNT ? hits : MAX_COUNT);

/** Numbers of a report before those of the nodes. */
export const REPORT_HEAD = 8;

/**
 * The report: reason and level of a refusal; what is left of the limit, and for the child; hits that the child has used
 * and borrowed in this window, what is left of its reservation, and what is held for others. After a refusal also the
 * nodes as they are now.
 */
function finishStep(
  limit: ShareNumbers,
  path: SharePath,
  nowMs: number,
  isKept: boolean,
  before: ShareNode[] | undefined,
): NodesStep {
  const depth = limit.depth;
  const root = nodeAt(path, 0);
  const last = nodeAt(path, depth);
  const report = [
    path.reason,
    path.at,
    root[LEVEL],
    findRoom(limit, path),
    last[USED],
    last[BORROWED],
    last[GUARD],
    path.held,
  ];
  const accepted = path.reason === 0;
  if (!accepted) reportNodes(limit, path, report);
  if (!isKept && before === undefined) return { accepted, state: copyNodes(limit, before), ttlMs: 0, report };
  const debtMs = root[LEVEL] < 0 ? Math.ceil(-root[LEVEL] / limit.rate) : 0;
  const ttlMs = limit.forgetMs + debtMs + root[AT] - nowMs;
  return { accepted, state: isKept || before === undefined ? path.nodes : before, ttlMs, report };
}

function reportNodes(limit: ShareNumbers, path: SharePath, report: number[]): void {
  const depth = limit.depth;
  for (let at = 0; at <= depth; at++)
    for (let place = 0; place < NODE_NUMBERS; place++)
      report[REPORT_HEAD + at * NODE_NUMBERS + place] = nodeAt(path, at)[place] ?? 0;
}

/** What the last child on the path may still use. */
function findRoom(limit: ShareNumbers, path: SharePath): number {
  const left = nodeAt(path, 0)[LEVEL];
  const depth = limit.critical === 1 ? 0 : limit.depth;
  const kept = limit.critical === 1 ? path.held : path.held + limit.kept;
  let room = left - Math.max(kept, limit.floor);
  for (let at = 1; at <= depth; at++) {
    const own = nodeAt(path, at)[LEVEL];
    room = Math.min(room, own);
  }
  const guard = nodeAt(path, limit.depth)[GUARD];
  const most = Math.max(room, guard);
  return most < 0 || left < 0 ? 0 : Math.min(most, left);
}
