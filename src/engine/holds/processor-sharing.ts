import { type Charge, hitsToFit, MAX_COUNT, type State, type Step } from '../algorithms/limit.ts';
import { writeInteger } from '../lua/lists.ts';

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
  /** Percentage that is kept for children that come next. */
  readonly spare: number;
  /** What the hits leave to higher priorities. */
  readonly floor: number;
  /** 1 for hits that are not held to the fair share; else 0. */
  readonly critical: number;
  /** The number of children on the path. */
  readonly depth: number;
  /** Of each child: id, reservation, weight, ceiling, and the sum of the reservations of its children. */
  readonly children: readonly number[];
}

/** Numbers of a child. */
const CHILD_NUMBERS = 5;

/** The limit, or a child: a bucket that hits are taken from, and the clock by which its children fill theirs. */
export type ShareNode = [
  ...[number, number, number, number, number, number, number],
  ...[number, number, number, number, number, number],
];
export const NODE_NUMBERS = 13;

/* The places of its numbers. */
export const AT = 0; // time of the last step; 0 for a new node
export const LEVEL = 1; // what is left in the bucket
const GUARD = 2; // what is left in that of the reservation
const PAID = 3; // the parent's virtual time up to which the share has been filled in
const VIRTUAL = 4; // virtual time of its children; 0 if it has never had any
const SPEED = 5; // how fast that passes
const OWED = 6; // hits of children with less than their share that virtual time must still make up for; at most 0
const CLAIMS = 7; // weights of the children that were refused for their share in this window
const CLAIMS_BEFORE = 8; // and of those only refused in the one before
const CLAIMED_IN = 9; // the last window in which it was itself refused so
const USED = 10; // hits in this window
const BORROWED = 11; // of these, the hits that its reservation did not cover
const LENT = 12; // what its children have used of their reservations, and that is not refilled yet; at least this much

/** Virtual time that passes in a millisecond if a child of weight 1 may use the whole rate. */
const UNITS = 100_000_000;
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
const CEILING = 5;

/** A node on the path during a step. */
interface Level {
  readonly node: ShareNode;
  readonly reserve: number;
  readonly weight: number;
  /** What it may use of each millisecond, and save up. */
  readonly perMs: number;
  readonly capacity: number;
  readonly guardCapacity: number;
  /** What its children leave to reservations of siblings, and besides to siblings that come next. */
  held: number;
  readonly spare: number;
  /** Its ceiling is less than its share; the most hits that a ceiling lets pass at once. */
  readonly isCapped: boolean;
  readonly most: number;
  /** Its reservation covers the hits. */
  pays: boolean;
}

/** The nodes on the path of hits, and the decision about the hits. */
interface SharePath {
  /** The limit, then the children. */
  readonly levels: Level[];
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
  if (charge && path.reason !== 0) claimShares(path);
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
  const root = rootOf(path);
  const isKept = nodes !== undefined && root.node[LEVEL] < root.capacity;
  const wanted = hits * limit.windowMs;
  const sinceMs = Math.max(root.node[AT] - chargedAtMs, 0);
  const depth = isKept ? limit.depth : -1;
  for (let at = 0; at <= depth; at++) {
    const level = levelAt(path, at);
    const node = level.node;
    node[LEVEL] = Math.min(node[LEVEL] + Math.max(wanted - Math.ceil(sinceMs * level.perMs), 0), level.capacity);
    node[GUARD] = Math.min(node[GUARD] + Math.max(wanted - sinceMs * level.reserve, 0), level.guardCapacity);
    node[USED] = Math.max(node[USED] - hits, 0);
  }
  return finishStep(limit, path, nowMs, isKept, nodes);
}

/** The names of the nodes on the path, where each is stored by itself. */
export function fields(limit: ShareNumbers): string[] {
  const names = ['p'];
  const depth = limit.depth;
  for (let at = 0; at < depth; at++) names[at + 1] = writeInteger(limit.children[at * CHILD_NUMBERS] ?? 0);
  return names;
}

const levelAt = (path: SharePath, at: number): Level => path.levels[at] as Level; // in range
const rootOf = (path: SharePath): Level => path.levels[0] as Level; // there always is a limit

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
  const capacity = limit.capacity;
  const node = nodes[0] as ShareNode; // there always is a limit
  if (node[AT] === 0) {
    node[AT] = nowMs;
    node[LEVEL] = capacity;
    node[SPEED] = UNITS;
  }
  const before = node[LEVEL];
  const sinceMs = Math.max(nowMs - node[AT], 0);
  const got = sinceMs * limit.rate;
  node[LEVEL] = Math.min(before + got, capacity);
  node[AT] += sinceMs;
  const window = Math.floor(node[AT] / limit.windowMs);
  const most = Math.floor(capacity * HELD_PART);
  const root: Level = {
    node,
    reserve: 0,
    weight: 1,
    perMs: limit.rate,
    capacity,
    guardCapacity: 0,
    held: Math.min(holdFor(limit, node, limit.reserved, sinceMs), most),
    spare: spareOf(limit, capacity),
    isCapped: false,
    most: capacity,
    pays: false,
  };
  if (sinceMs > 0) {
    beginWindow(limit, node, window, sinceMs);
    advance(limit, root, before, got, sinceMs);
  }
  const path: SharePath = { levels: [root], window, held: root.held, reason: 0, at: 0, lacking: 0 };
  const depth = limit.depth;
  for (let at = 0; at < depth; at++) openChild(limit, path, at, nodes[at + 1] as ShareNode); // one for each
  if (depth > 0) path.held = Math.max(root.held - Math.max(levelAt(path, 1).node[GUARD], 0), 0);
  return path;
}

/** Fills the bucket of a child with what it has got since its last step. @param at  the number of children above it */
function openChild(limit: ShareNumbers, path: SharePath, at: number, node: ShareNode): void {
  const parent = levelAt(path, at);
  const above = parent.node;
  const first = at * CHILD_NUMBERS;
  const reserve = limit.children[first + 1] ?? 0;
  const weight = limit.children[first + 2] ?? 1;
  const ceiling = limit.children[first + 3] ?? 0;
  const isLeaf = at === limit.depth - 1;
  const perUnit = (weight * limit.rate) / UNITS;
  const share = reserve + above[SPEED] * perUnit;
  const perMs = Math.min(share, ceiling > 0 ? ceiling : limit.rate, parent.perMs);
  const most = ceiling > 0 ? Math.max(Math.floor(ceiling * limit.refillMs), limit.windowMs) : limit.capacity;
  const saved = above[CLAIMS] + above[CLAIMS_BEFORE] === 0 ? 1 : isLeaf ? LEAF_PART : INNER_PART;
  const capacity = Math.min(Math.floor(perMs * limit.refillMs * saved) + SAVED_HITS * limit.windowMs, most);
  const guardCapacity = reserve === 0 ? 0 : Math.max(Math.floor(reserve * limit.refillMs), limit.windowMs);
  if (above[AT] - node[AT] >= limit.forgetMs || node[PAID] > above[VIRTUAL])
    renew(node, above, capacity, guardCapacity);
  if (!isLeaf && node[VIRTUAL] === 0) node[VIRTUAL] = 1;
  const sinceMs = Math.max(above[AT] - node[AT], 0);
  const level: Level = {
    node,
    reserve,
    weight,
    perMs,
    capacity,
    guardCapacity,
    held: holdFor(limit, node, limit.children[first + 4] ?? 0, sinceMs),
    spare: isLeaf ? 0 : spareOf(limit, capacity),
    isCapped: ceiling > 0 && share > ceiling,
    most,
    pays: false,
  };
  path.levels[at + 1] = level;
  const before = Math.min(node[LEVEL], capacity);
  const virtual = above[VIRTUAL];
  const reserved = reserve * sinceMs;
  const due = reserved + (virtual - node[PAID]) * perUnit;
  const got = Math.floor(ceiling > 0 ? Math.min(due, ceiling * sinceMs) : due);
  const paid = Math.min(node[PAID] + Math.ceil(Math.max(got - reserved, 0) / perUnit), virtual);
  node[PAID] = Math.max(paid, virtual - Math.floor(capacity / perUnit), 0);
  node[LEVEL] = Math.min(before + got, capacity);
  node[GUARD] = Math.min(node[GUARD] + reserved, guardCapacity);
  node[AT] = above[AT];
  if (sinceMs > 0) {
    beginWindow(limit, node, path.window, sinceMs);
    if (node[VIRTUAL] > 0) advance(limit, level, before, got, sinceMs);
  }
}

/** Makes a child new, with a full bucket. */
function renew(node: ShareNode, above: ShareNode, capacity: number, guardCapacity: number): void {
  for (let place = 0; place < NODE_NUMBERS; place++) node[place] = 0;
  node[AT] = above[AT];
  node[PAID] = above[VIRTUAL];
  node[LEVEL] = capacity;
  node[GUARD] = guardCapacity;
  node[SPEED] = UNITS;
}

/** What is held for reservations of the node's children: what they have not used. */
function holdFor(limit: ShareNumbers, node: ShareNode, reserved: number, sinceMs: number): number {
  if (reserved === 0) return 0;
  node[LENT] = Math.max(node[LENT] - sinceMs * reserved, 0);
  return Math.max(Math.floor(reserved * limit.refillMs) - node[LENT], 0);
}

/** What is kept in a bucket for children that come next: at least a hit, unless the bucket has no second one. */
function spareOf(limit: ShareNumbers, capacity: number): number {
  if (limit.spare === 0) return 0;
  const part = Math.floor((capacity * limit.spare) / 100);
  return Math.min(Math.max(limit.windowMs, part), Math.max(capacity - limit.windowMs, 0));
}

/** How full the bucket is above what is kept in it, from 0 to 1. */
function fillOf(level: Level, left: number): number {
  const kept = Math.min(level.held, level.capacity * HELD_PART) + level.spare;
  if (level.capacity <= kept) return 1;
  return Math.min(Math.max((left - kept) / (level.capacity - kept), 0), 1);
}

/** Starts the counts of a window, if it is not that of the last step. */
function beginWindow(limit: ShareNumbers, node: ShareNode, window: number, sinceMs: number): void {
  const last = Math.floor((node[AT] - sinceMs) / limit.windowMs);
  if (window === last) return;
  node[CLAIMS_BEFORE] = window === last + 1 ? node[CLAIMS] : 0;
  node[CLAIMS] = 0;
  node[USED] = 0;
  node[BORROWED] = 0;
}

/** Advances the virtual time of the children. @param got  what the node has got since its last step */
function advance(limit: ShareNumbers, level: Level, before: number, got: number, sinceMs: number): void {
  const node = level.node;
  const fill = fillOf(level, (before + node[LEVEL]) / 2);
  const haste = fill < 1 ? Math.min(Math.max(fill / (1 - fill), SLOWEST), FASTEST) : FASTEST;
  const weights = node[CLAIMS] + node[CLAIMS_BEFORE];
  const left = node[OWED] + got;
  node[OWED] = weights === 0 || left > 0 ? 0 : Math.max(left, -Math.floor(level.capacity / 2));
  const each = weights === 0 ? got : Math.max(left, 0) / weights;
  const longest = Math.min(Math.floor(UNITS * limit.refillMs), MAX_VIRTUAL);
  const passed = Math.min(Math.floor((haste * each * UNITS) / limit.rate), longest);
  node[VIRTUAL] = node[VIRTUAL] + passed < MAX_VIRTUAL ? node[VIRTUAL] + passed : 1;
  const change = Math.floor((passed - node[SPEED] * sinceMs) * Math.min(1 / sinceMs, 2 / limit.refillMs));
  node[SPEED] = Math.min(Math.max(node[SPEED] + change, 1), UNITS);
}

/** Decides hits: sets the reason and the level of a refusal, and the lowest level that lacks them. */
export function judge(limit: ShareNumbers, path: SharePath, hits: number): void {
  const wanted = hits * limit.windowMs;
  const depth = limit.depth;
  let isPaid = false;
  let isNext = false;
  path.lacking = 0;
  for (let at = depth; at > 0; at--) {
    const level = levelAt(path, at);
    isPaid = level.reserve > 0 && level.node[GUARD] - wanted >= (isPaid ? 0 : level.held);
    level.pays = isPaid;
    if (limit.critical === 0 && path.lacking === 0) {
      const left = level.node[LEVEL] - wanted;
      const kept = at === depth || isNext ? 0 : level.spare;
      if (!isPaid && left < Math.min(kept, level.capacity - wanted)) path.lacking = at;
      isNext = isNext || (left >= level.capacity / 2 && !isClaiming(path, level.node));
    }
  }
  const root = rootOf(path);
  const room = root.node[LEVEL] - wanted;
  const kept = isPaid ? 0 : isNext || limit.critical === 1 ? path.held : path.held + root.spare;
  path.reason = 0;
  path.at = 0;
  if (room < 0) path.reason = EMPTY;
  else if (room < Math.min(kept, root.capacity - wanted)) path.reason = HELD;
  else if (!isPaid && room < limit.floor) path.reason = PRIORITY;
  else judgeShares(path, depth, wanted);
}

/** Decides hits that the limit itself has room for. */
function judgeShares(path: SharePath, depth: number, wanted: number): void {
  for (let at = depth; at > 0; at--) {
    if (wanted > levelAt(path, at).most) {
      path.reason = CEILING;
      path.at = at;
      path.lacking = 0;
    }
  }
  if (path.lacking === 0) return;
  path.reason = levelAt(path, path.lacking).isCapped ? CEILING : SHARE;
  path.at = path.lacking;
}

/** Whether a child was refused for its share in this window or in the one before. */
const isClaiming = (path: SharePath, node: ShareNode): boolean => path.window - node[CLAIMED_IN] <= 1;

/** Notes that the children on the path need more than their share: those up to the level that lacks the hits. */
function claimShares(path: SharePath): void {
  const isUsedUp = path.reason === EMPTY || path.reason === HELD;
  const window = path.window;
  let at = isUsedUp ? path.levels.length - 1 : path.lacking;
  while (at > 0) {
    const level = levelAt(path, at);
    const node = level.node;
    if (level.isCapped || (!isUsedUp && at < path.lacking && fillOf(level, node[LEVEL]) > SATISFIED)) return;
    const parent = levelAt(path, at - 1).node;
    if (node[CLAIMED_IN] !== window) {
      if (node[CLAIMED_IN] === window - 1) parent[CLAIMS_BEFORE] = Math.max(parent[CLAIMS_BEFORE] - level.weight, 0);
      parent[CLAIMS] = Math.min(parent[CLAIMS] + level.weight, MAX_COUNT);
      node[CLAIMED_IN] = window;
    }
    at--;
  }
}

/** Counts hits; negative ones are given back. */
function take(limit: ShareNumbers, path: SharePath, hits: number): void {
  const taken = hits * limit.windowMs;
  const depth = limit.depth;
  const root = rootOf(path);
  root.node[LEVEL] = bounded(root.node[LEVEL] - taken, root.capacity);
  let parent = root.node;
  for (let at = 1; at <= depth; at++) {
    const level = levelAt(path, at);
    const node = level.node;
    node[LEVEL] = bounded(node[LEVEL] - taken, level.capacity);
    node[USED] = Math.min(Math.max(node[USED] + hits, 0), MAX_COUNT);
    if (!isClaiming(path, node)) parent[OWED] = bounded(parent[OWED] - taken, 0);
    if (level.pays) parent[LENT] = Math.min(parent[LENT] + taken, MAX_COUNT);
    if (level.pays || (hits < 0 && level.reserve > 0)) node[GUARD] = bounded(node[GUARD] - taken, level.guardCapacity);
    else node[BORROWED] = Math.min(Math.max(node[BORROWED] + hits, 0), MAX_COUNT);
    parent = node;
  }
}

function bounded(level: number, most: number): number {
  return Math.min(Math.max(level, -MAX_COUNT), most);
}

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
  const root = rootOf(path).node;
  const last = levelAt(path, depth).node;
  const used = depth > 0 ? last[USED] : 0;
  const borrowed = depth > 0 ? last[BORROWED] : 0;
  const report = [path.reason, path.at, root[LEVEL], findRoom(limit, path), used, borrowed, last[GUARD], path.held];
  const accepted = path.reason === 0;
  const nodes: ShareNode[] = [];
  for (let at = 0; at <= depth; at++) {
    const node = levelAt(path, at).node;
    nodes[at] = node;
    if (!accepted)
      for (let place = 0; place < NODE_NUMBERS; place++)
        report[REPORT_HEAD + at * NODE_NUMBERS + place] = node[place] ?? 0;
  }
  if (!isKept && before === undefined) return { accepted, state: copyNodes(limit, before), ttlMs: 0, report };
  const fullMs = 2 * limit.windowMs + Math.ceil((limit.capacity - root[LEVEL]) / limit.rate);
  const ttlMs = Math.max(fullMs, limit.forgetMs) + root[AT] - nowMs;
  return { accepted, state: isKept || before === undefined ? nodes : before, ttlMs, report };
}

/** What the last child on the path may still use. */
function findRoom(limit: ShareNumbers, path: SharePath): number {
  const root = rootOf(path);
  const depth = limit.critical === 1 ? 0 : limit.depth;
  const spare = limit.critical === 1 ? 0 : root.spare;
  let room = root.node[LEVEL] - Math.max(path.held + spare, limit.floor);
  for (let at = 1; at <= depth; at++) room = Math.min(room, levelAt(path, at).node[LEVEL]);
  const guard = levelAt(path, limit.depth).node[GUARD];
  return Math.min(Math.max(room, guard, 0), Math.max(root.node[LEVEL], 0));
}
