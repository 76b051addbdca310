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
import { type Claim, hashHolder, type ShareClaim } from './claim.ts';
import type { Counting } from './counting.ts';
import { type ShareReason, shareReasons } from './reports.ts';

/** What a rule gives to one child of a shared limit, or of a child with children. */
export interface ChildNumbers {
  /** The entry's key, for messages. */
  readonly key: string;
  /** Hits per window that no sibling can take from it; 0 for none. */
  readonly reserve: number;
  /** Its part of what is left, relative to its siblings; at least 1. */
  readonly weight: number;
  /** Maximum hits per window; 0 for no maximum of its own. */
  readonly ceiling: number;
  /** The sum of the reservations of its own children that rules name. Default: none. */
  readonly reserved?: number;
}

/** How children share a limit. */
export interface Sharing {
  /** The entry's key by whose values hits are shared; absent below the last level. */
  readonly by?: string;
  /** The children from the top to the one that hits of this rule belong to; empty for hits of no child. */
  readonly path: readonly ChildNumbers[];
  /** The sum of the reservations of the first level. Default: none. */
  readonly reserved?: number;
  /** Percentage that is kept for children that come next. Default: `DEFAULT_SPARE`. */
  readonly spare?: number;
  /** Percentage of the bucket that the hits may use: see `priorities`. Default: all of it, within the fair share. */
  readonly threshold?: number;
  /** The index of the child whose value is the priority, if a value is. */
  readonly thresholdAt?: number;
}

/** A token bucket whose children share it. `burst` is the capacity of the full bucket. */
export interface FairShareLimit extends AnyLimit, Sharing {
  readonly algorithm: 'fair_share';
  readonly burst: number;
}

/** Names of priorities, and the part of the bucket that hits may use, in percent. */
export const priorities: ReadonlyMap<string, number> = new Map([
  ['critical', 100],
  ['default', 85],
  ['sheddable', 60],
]);

/** The threshold of requests that state none of the priorities. */
const DEFAULT_THRESHOLD = 85;

/** The threshold of a written priority, from 1 to 100; undefined if it is none. */
export function readPriority(written: string): number | undefined {
  const named = priorities.get(written);
  if (named !== undefined) return named;
  const number = /^\d{1,3}$/.test(written) ? Number(written) : 0;
  return number >= 1 && number <= 100 ? number : undefined;
}

/** The threshold of a priority that a request states. */
export const statedThreshold = (stated: string): number => readPriority(stated) ?? DEFAULT_THRESHOLD;

/** The claim of hits on a shared limit. @param values  those of the entries that name the children, from the top */
export function claimShare(limit: AnyLimit, values: readonly string[]): ShareClaim {
  const { thresholdAt } = limit as FairShareLimit; // absent in others
  const children: number[] = [];
  for (const value of values) children.push(hashHolder(`${children.at(-1) ?? ''}|${value}`));
  if (thresholdAt === undefined) return { children };
  const stated = statedThreshold(values[thresholdAt] ?? '');
  return { children, threshold: Math.min(stated, (limit as FairShareLimit).threshold ?? stated) };
}

/** Hits of this threshold may use the whole bucket, and are not held to the fair share. */
const CRITICAL = 100;

/** Numbers of each node in a state: the limit's first, then those of the children on the path. */
const NODE_NUMBERS = 13;

/** Virtual time that passes in a millisecond if a child of weight 1 may use the whole rate. */
const UNITS = 100_000_000;
/** Longest virtual time; it starts over then, and children are new. */
const MAX_VIRTUAL = 2 ** 52;
/** Parts of the time in which the limit's bucket is refilled: what a child may save up while others wait, in its share. */
const LEAF_PART = 0.5;
const INNER_PART = 0.25;
/** Hits that a child may save up in addition. */
const SAVED_HITS = 4;
/** Maximum part of the bucket that is held for reservations. */
const HELD_PART = 0.5;
/** Maximum factor by which a full bucket speeds virtual time up, and an empty one slows it down. */
const FASTEST = 8;
const SLOWEST = 64;
/** A child whose bucket is fuller than this has all that its own children ask for. */
const SATISFIED = 0.6;

/** The limit, or a child: a bucket that hits are taken from, and the clock by which its children fill theirs. */
interface FairNode {
  /** Time of the last step; 0 for a new node. */
  atMs: number;
  /** What is left in the bucket, and in that of the reservation. Hits times milliseconds of the window. */
  level: number;
  guard: number;
  /** The parent's virtual time up to which the child's share has been filled in. */
  paid: number;
  /** Virtual time of its children, and how fast it passes. */
  virtual: number;
  speed: number;
  /** Hits of children with less than their share that virtual time must still make up for; at most 0. */
  owed: number;
  /** Weights of the children that were refused for their share in this window, and only in the one before. */
  claims: number;
  claimsBefore: number;
  /** The last window in which it was itself refused so. */
  claimedIn: number;
  /** Hits in this window, and how many of them its reservation did not cover. */
  used: number;
  borrowed: number;
  /** What its children have used of their reservations, and that is not refilled yet; at least this much. */
  lent: number;
}

const readNode = (state: State, at: number): FairNode => ({
  atMs: state[at] ?? 0,
  level: state[at + 1] ?? 0,
  guard: state[at + 2] ?? 0,
  paid: state[at + 3] ?? 0,
  virtual: state[at + 4] ?? 0,
  speed: state[at + 5] ?? 0,
  owed: state[at + 6] ?? 0,
  claims: state[at + 7] ?? 0,
  claimsBefore: state[at + 8] ?? 0,
  claimedIn: state[at + 9] ?? 0,
  used: state[at + 10] ?? 0,
  borrowed: state[at + 11] ?? 0,
  lent: state[at + 12] ?? 0,
});

function writeNodes(levels: readonly Level[], into: number[]): State {
  for (const { node } of levels) {
    into.push(node.atMs, node.level, node.guard, node.paid, node.virtual, node.speed, node.owed);
    into.push(node.claims, node.claimsBefore, node.claimedIn, node.used, node.borrowed, node.lent);
  }
  return into;
}

/** A state from those of its nodes, each of which may be new; undefined if the parent is. */
export function joinNodes(states: readonly (State | undefined)[]): State | undefined {
  if (states[0] === undefined) return undefined;
  const joined: number[] = [];
  for (const state of states) for (let at = 0; at < NODE_NUMBERS; at++) joined.push(state?.[at] ?? 0);
  return joined;
}

/** The part of a state that belongs to a node on the path. */
export const nodeState = (state: State, at: number): State => state.slice(at * NODE_NUMBERS, (at + 1) * NODE_NUMBERS);

/** A node on the path during a step. */
interface Level {
  readonly node: FairNode;
  readonly reserve: number;
  readonly weight: number;
  /** What it may use of each millisecond, and save up. */
  readonly perMs: number;
  readonly capacity: number;
  readonly guardCapacity: number;
  /** What its children leave to reservations of siblings, and besides to siblings that come next. */
  readonly held: number;
  readonly spare: number;
  /** Its ceiling is less than its share; the most hits that a ceiling lets pass at once. */
  readonly isCapped: boolean;
  readonly most: number;
  /** Its reservation covers the hits. */
  pays: boolean;
}

/** The numbers of a limit, as fair-share.lua documents them, by name. */
interface Numbers {
  readonly rate: number;
  /** A hit, and the window, in milliseconds. */
  readonly hit: number;
  readonly capacity: number;
  readonly depth: number;
  readonly floor: number;
  readonly isCritical: boolean;
  /** Time in which the bucket is refilled. */
  readonly refillMs: number;
  readonly sparePart: number;
  readonly all: readonly number[];
}

/** Avoids divisions by zero. */
const LEAST_RATE = 1e-6;
const FIRST_LEVEL = 8;
const LEVEL_NUMBERS = 5;

const nameNumbers = (all: readonly number[]): Numbers => ({
  rate: Math.max(all[0] ?? 0, LEAST_RATE),
  hit: all[1] ?? 0,
  capacity: all[2] ?? 0,
  depth: all[3] ?? 0,
  floor: all[4] ?? 0,
  isCritical: all[5] === 1,
  refillMs: (all[2] ?? 0) / Math.max(all[0] ?? 0, 1),
  sparePart: all[7] ?? 0,
  all,
});

/**
 * Fair shares: a token bucket that children, and their children, divide. Twin of fair-share.lua. State: the numbers of
 * the limit, then those of each child on the path; a step reads no other child.
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
 * @param nowMs   may run backwards; that refills nothing
 * @param hits    0 peeks, a negative number gives hits back
 * @param charge  false to leave the counter unchanged and only return the outcome
 * @see https://doi.org/10.1109/90.234856 (generalized processor sharing)
 * @see https://doi.org/10.1145/248156.248170 (hierarchical packet fair queueing)
 */
const step: Counting<FairShareLimit>['step'] = (limit, state, nowMs, hits, charge, claim) => {
  const numbers = nameNumbers(scriptArgs(limit, nowMs, claim));
  const levels = openLevels(numbers, state, nowMs);
  const judgement = hits < 0 ? ACCEPTED : judge(numbers, levels, hitsToFit(hits));
  const accepted = judgement[0] === 0;
  if (charge && !accepted) claimShares(numbers, levels, judgement);
  if (hits !== 0 && (charge === 'regardless' || (charge && accepted))) take(numbers, levels, hits);
  return finishStep(numbers, levels, { state, nowMs, judgement, isKept: charge !== false && hits !== 0 });
};

type Judgement = readonly [reason: number, level: number, lacking: number];
const ACCEPTED: Judgement = [0, 0, 0];

/** The report: reason, level, and the nodes as they are now. */
function finishStep(
  numbers: Numbers,
  levels: readonly Level[],
  {
    state,
    nowMs,
    judgement: [reason, level],
    isKept,
  }: {
    readonly state: State | undefined;
    readonly nowMs: number;
    readonly judgement: Judgement;
    readonly isKept: boolean;
  },
): Step {
  const report = writeNodes(levels, [reason, level]);
  const accepted = reason === 0;
  const kept = isKept ? report.slice(2) : state;
  if (kept) return { accepted, state: kept, ttlMs: ttlMs(numbers, levels, nowMs), report };
  return { accepted, state: Array.from({ length: levels.length * NODE_NUMBERS }, () => 0), ttlMs: 0, report };
}

/** Reads the nodes, fills their buckets, and advances the virtual time of each parent. */
function openLevels(numbers: Numbers, state: State | undefined, nowMs: number): readonly Level[] {
  const { rate, capacity, depth, all } = numbers;
  const read = readNode(state ?? [], 0);
  const root = read.atMs > 0 ? read : { ...read, atMs: nowMs, level: capacity, speed: UNITS };
  const atMs = Math.max(nowMs, root.atMs);
  const sinceMs = atMs - root.atMs;
  const before = root.level;
  root.level = Math.min(before + sinceMs * rate, capacity);
  root.atMs = atMs;
  const reserved = all[6] ?? 0;
  const held = Math.min(heldOf(numbers, root, reserved, sinceMs), Math.floor(capacity * HELD_PART));
  const spare = spareOf(numbers, capacity);
  const top = { reserve: 0, weight: 1, perMs: rate, capacity, guardCapacity: 0, held, spare };
  const whole = { ...top, isCapped: false, most: capacity, pays: false };
  const levels: Level[] = [{ node: root, ...whole }];
  advance(numbers, levels[0] as Level, before, sinceMs * rate, sinceMs);
  for (let at = 0; at < depth; at++)
    levels.push(openChild(numbers, levels[at] as Level, at, readNode(state ?? [], (at + 1) * NODE_NUMBERS)));
  return levels;
}

/** How long a child is remembered after its last call. */
const forgetMs = ({ hit, refillMs }: Pick<Numbers, 'hit' | 'refillMs'>): number =>
  unitMs.MINUTE + 2 * hit + Math.ceil(3 * refillMs);

/** What is kept in a bucket for children that come next: at least a hit, unless the bucket has no second one. */
const spareOf = ({ hit, sparePart }: Numbers, capacity: number): number =>
  sparePart === 0 ? 0 : Math.min(Math.max(hit, Math.floor((capacity * sparePart) / 100)), Math.max(capacity - hit, 0));

/** Fills the bucket of a child with what it has got since its last step. */
function openChild(numbers: Numbers, parent: Level, at: number, node: FairNode): Level {
  const { rate, hit, depth, refillMs, all } = numbers;
  const first = FIRST_LEVEL + at * LEVEL_NUMBERS;
  const [reserve = 0, weight = 1, ceiling = 0, reserved = 0] = all.slice(first + 1, first + LEVEL_NUMBERS);
  const { virtual, speed, claims, claimsBefore, atMs } = parent.node;
  const isLeaf = at === depth - 1;
  const share = reserve + (weight * speed * rate) / UNITS;
  const perMs = Math.min(share, ceiling > 0 ? ceiling : rate, parent.perMs);
  const part = claims + claimsBefore === 0 ? 1 : isLeaf ? LEAF_PART : INNER_PART;
  const most = ceiling > 0 ? Math.max(Math.floor(ceiling * refillMs), hit) : numbers.capacity;
  const capacity = Math.min(Math.floor(perMs * refillMs * part) + SAVED_HITS * hit, most);
  const guardCapacity = guardOf(numbers, reserve);
  const isNew = atMs - node.atMs >= forgetMs(numbers) || node.paid > virtual;
  if (isNew) Object.assign(node, newChild(atMs, virtual, capacity, guardCapacity));
  const sinceMs = Math.max(atMs - node.atMs, 0);
  const perUnit = (weight * rate) / UNITS;
  const due = reserve * sinceMs + (virtual - node.paid) * perUnit;
  const got = Math.floor(ceiling > 0 ? Math.min(due, ceiling * sinceMs) : due);
  const paid = Math.min(node.paid + Math.ceil(Math.max(got - reserve * sinceMs, 0) / perUnit), virtual);
  node.paid = Math.max(paid, virtual - Math.floor(capacity / perUnit), 0);
  const before = Math.min(node.level, capacity);
  node.level = Math.min(node.level + got, capacity);
  node.guard = Math.min(node.guard + reserve * sinceMs, guardCapacity);
  node.atMs = atMs;
  const held = heldOf(numbers, node, reserved, sinceMs);
  const isCapped = ceiling > 0 && share > ceiling;
  const spare = spareOf(numbers, capacity);
  const level = { node, reserve, weight, perMs, capacity, guardCapacity, held, spare, isCapped, most, pays: false };
  advance(numbers, level, before, got, sinceMs);
  return level;
}

const newChild = (atMs: number, paid: number, level: number, guard: number): FairNode => ({
  ...readNode([], 0),
  atMs,
  paid,
  level,
  guard,
  speed: UNITS,
});

/** What is held for reservations of the node's children: what they have not used. */
function heldOf({ refillMs }: Numbers, node: FairNode, reserved: number, sinceMs: number): number {
  node.lent = Math.max(node.lent - sinceMs * reserved, 0);
  return Math.max(Math.floor(reserved * refillMs) - node.lent, 0);
}

/** What a reservation may save up: at least a hit. */
const guardOf = ({ hit, refillMs }: Numbers, reserve: number): number =>
  reserve === 0 ? 0 : Math.max(Math.floor(reserve * refillMs), hit);

/** How full the bucket is above what is kept in it, from 0 to 1. */
const fillOf = ({ capacity, held, spare }: Level, level: number): number =>
  capacity > held + spare ? Math.min(Math.max((level - held - spare) / (capacity - held - spare), 0), 1) : 1;

/** Advances the virtual time of the children. @param got  what the node has got since its last step */
function advance(numbers: Numbers, level: Level, before: number, got: number, sinceMs: number): void {
  const { rate, hit, refillMs } = numbers;
  const { node, capacity } = level;
  const windows = Math.floor(node.atMs / hit) - Math.floor((node.atMs - sinceMs) / hit);
  if (windows > 0) {
    node.claimsBefore = windows === 1 ? node.claims : 0;
    node.claims = 0;
    node.used = 0;
    node.borrowed = 0;
  }
  const fill = fillOf(level, (before + node.level) / 2);
  const haste = Math.min(Math.max(fill / (1 - fill), 1 / SLOWEST), FASTEST);
  const weights = node.claims + node.claimsBefore;
  const left = node.owed + got;
  node.owed = weights === 0 ? 0 : Math.max(Math.min(left, 0), -Math.floor(capacity / 2));
  const each = weights === 0 ? got : Math.max(left, 0) / weights;
  const passed = Math.min(Math.floor((haste * each * UNITS) / rate), Math.floor(UNITS * refillMs), MAX_VIRTUAL);
  node.virtual = node.virtual + passed < MAX_VIRTUAL ? node.virtual + passed : 0;
  if (sinceMs === 0) return;
  const change = Math.floor((passed - node.speed * sinceMs) * Math.min(1 / sinceMs, 2 / refillMs));
  node.speed = Math.min(Math.max(node.speed + change, 1), UNITS);
}

const reasonNumber = (reason: ShareReason): number => shareReasons.indexOf(reason);
const EMPTY = reasonNumber('empty');
const HELD = reasonNumber('held');
const PRIORITY = reasonNumber('priority');
const SHARE = reasonNumber('share');
const CEILING = reasonNumber('ceiling');

/** Decides hits: why and at which level they are refused, and the lowest level that lacks them. */
function judge({ hit, floor, isCritical }: Numbers, levels: readonly Level[], hits: number): Judgement {
  const wanted = hits * hit;
  let isPaid = false;
  for (let at = levels.length - 1; at > 0; at--) {
    const level = levels[at] as Level;
    isPaid = level.reserve > 0 && level.node.guard - wanted >= (isPaid ? 0 : level.held);
    level.pays = isPaid;
  }
  let isNext = false;
  let lacking = 0;
  for (let at = levels.length - 1; at > 0 && !isCritical && lacking === 0; at--) {
    const level = levels[at] as Level;
    const { node, capacity, spare, pays } = level;
    const left = node.level - wanted;
    const kept = at === levels.length - 1 || isNext ? 0 : spare;
    if (!pays && left < Math.min(kept, capacity - wanted)) lacking = at;
    isNext = isNext || (left >= capacity / 2 && !isClaiming(node, hit));
  }
  const { node, capacity, spare } = levels[0] as Level;
  const held = heldForOthers(levels);
  const room = node.level - wanted;
  const kept = isPaid ? 0 : isNext || isCritical ? held : held + spare;
  if (room < 0) return [EMPTY, 0, lacking];
  if (room < Math.min(kept, capacity - wanted)) return [HELD, 0, lacking];
  if (!isPaid && room < floor) return [PRIORITY, 0, lacking];
  for (let at = 1; at < levels.length; at++) if (wanted > (levels[at] as Level).most) return [CEILING, at, 0];
  if (lacking === 0) return ACCEPTED;
  return [(levels[lacking] as Level).isCapped ? CEILING : SHARE, lacking, lacking];
}

/** Whether a child was refused for its share in this window or in the one before. */
const isClaiming = ({ atMs, claimedIn }: FairNode, windowMs: number): boolean =>
  Math.floor(atMs / windowMs) - claimedIn <= 1;

/** What the limit holds for reservations of other children. */
const heldForOthers = ([root, child]: readonly Level[]): number =>
  Math.max((root?.held ?? 0) - Math.max(child?.node.guard ?? 0, 0), 0);

/** Notes that the children on the path need more than their share: those up to the level that lacks the hits. */
function claimShares({ hit }: Numbers, levels: readonly Level[], [reason, , lacking]: Judgement): void {
  const isUsedUp = reason === EMPTY || reason === HELD;
  for (let at = isUsedUp ? levels.length - 1 : lacking; at > 0; at--) {
    const level = levels[at] as Level;
    const { node, weight } = level;
    if (level.isCapped || (!isUsedUp && at < lacking && fillOf(level, node.level) > SATISFIED)) return;
    const parent = (levels[at - 1] as Level).node;
    const window = Math.floor(node.atMs / hit);
    if (node.claimedIn === window) continue;
    if (node.claimedIn === window - 1) parent.claimsBefore = Math.max(parent.claimsBefore - weight, 0);
    parent.claims = Math.min(parent.claims + weight, MAX_COUNT);
    node.claimedIn = window;
  }
}

/** Counts hits; negative ones are given back. */
function take({ hit }: Numbers, levels: readonly Level[], hits: number): void {
  const taken = hits * hit;
  const root = levels[0] as Level;
  root.node.level = bounded(root.node.level - taken, root.capacity);
  for (let at = 1; at < levels.length; at++) {
    const { node, reserve, capacity, guardCapacity, pays } = levels[at] as Level;
    const parent = (levels[at - 1] as Level).node;
    node.level = bounded(node.level - taken, capacity);
    node.used = Math.min(Math.max(node.used + hits, 0), MAX_COUNT);
    if (!isClaiming(node, hit)) parent.owed = bounded(parent.owed - taken, 0);
    if (pays) parent.lent = Math.min(parent.lent + taken, MAX_COUNT);
    if (pays || (hits < 0 && reserve > 0)) node.guard = bounded(node.guard - taken, guardCapacity);
    else node.borrowed = Math.min(Math.max(node.borrowed + hits, 0), MAX_COUNT);
  }
}

const bounded = (level: number, most: number): number => Math.min(Math.max(level, -MAX_COUNT), most);

/** The time until the limit is full and all children are new. */
function ttlMs(numbers: Numbers, levels: readonly Level[], nowMs: number): number {
  const { node, capacity } = levels[0] as Level;
  const fullMs = 2 * numbers.hit + Math.ceil((capacity - node.level) / numbers.rate);
  return Math.max(fullMs, forgetMs(numbers)) + node.atMs - nowMs;
}

function scriptArgs(limit: FairShareLimit, _nowMs: number, claim?: Claim): readonly number[] {
  const { requestsPerUnit, burst, path, windowMs, reserved = 0, spare = DEFAULT_SPARE } = limit;
  const { children = [], threshold = limit.threshold } = claim?.share ?? {};
  const capacity = burst * windowMs;
  const depth = Math.min(path.length, children.length);
  const floor = threshold === undefined ? 0 : Math.floor((capacity * (100 - threshold)) / 100);
  const isCritical = threshold === CRITICAL ? 1 : 0;
  const numbers = [requestsPerUnit, windowMs, capacity, depth, floor, isCritical, reserved, spare];
  for (let at = 0; at < depth; at++) {
    const { reserve, weight, ceiling, reserved: below = 0 } = path[at] as ChildNumbers; // in range
    numbers.push(children[at] as number, reserve, weight, ceiling, below);
  }
  return numbers;
}

/** Percentage of the bucket that is kept for children that come next. */
export const DEFAULT_SPARE = 5;

/** Whether the last child in a state has had hits in this window, or in the one before. */
function isActiveChild(limit: FairShareLimit, state: State | undefined, nowMs: number): boolean {
  const { atMs } = readNode(state ?? [], (state?.length ?? 0) - NODE_NUMBERS);
  return Math.floor(nowMs / limit.windowMs) - Math.floor(atMs / limit.windowMs) <= 1;
}

/** A promised wait may be later than needed by this part of it. */
const LATENESS = 16;

/** The time until refused hits would pass if nothing else arrives, rounded up by at most a sixteenth. */
function findWaitMs(numbers: Numbers, nodes: State, hits: number): number {
  const { hit, floor, refillMs } = numbers;
  const atMs = nodes[0] ?? 0;
  const levels = openLevels(numbers, nodes, atMs);
  const wanted = hits * hit;
  let guessMs = 1;
  for (const [at, { node, capacity, most, perMs, held, spare }] of levels.entries()) {
    if (wanted > (at === 0 ? capacity - floor : most)) return NEVER_MS;
    const needed = at === 0 ? Math.min(wanted + held + spare, capacity) : Math.min(wanted, capacity);
    guessMs = Math.max(guessMs, Math.ceil((needed - node.level) / perMs));
  }
  const passes = (ms: number): boolean => judge(numbers, openLevels(numbers, nodes, atMs + ms), hits)[0] === 0;
  const longestMs = 2 ** 20 * (refillMs + hit);
  let early = Math.floor((guessMs * (LATENESS - 1)) / LATENESS);
  let late = guessMs;
  if (passes(early)) [early, late] = [0, early];
  while (!passes(late)) {
    if (late > longestMs) return NEVER_MS;
    early = late;
    late *= 2;
  }
  while (late - early > 1 && (late - early) * LATENESS > late) {
    const between = Math.floor((early + late) / 2);
    if (passes(between)) late = between;
    else early = between;
  }
  return late;
}

/** Gives back hits, as far as they are not refilled yet. */
function giveBack(numbers: Numbers, levels: readonly Level[], hits: number, chargedAtMs: number): void {
  const wanted = hits * numbers.hit;
  const sinceMs = Math.max((levels[0] as Level).node.atMs - chargedAtMs, 0);
  for (const { node, capacity, guardCapacity, perMs, reserve } of levels) {
    node.level = Math.min(node.level + Math.max(wanted - Math.ceil(sinceMs * perMs), 0), capacity);
    node.guard = Math.min(node.guard + Math.max(wanted - sinceMs * reserve, 0), guardCapacity);
    node.used = Math.max(node.used - hits, 0);
  }
}

/** What the last child on the path may still use. */
function findRoom({ floor, isCritical }: Numbers, levels: readonly Level[]): number {
  const { node, spare } = levels[0] as Level;
  const held = heldForOthers(levels);
  let own = Number.POSITIVE_INFINITY;
  if (!isCritical) for (let at = 1; at < levels.length; at++) own = Math.min(own, (levels[at] as Level).node.level);
  const common = Math.min(own, node.level - Math.max(held + (isCritical ? 0 : spare), floor));
  return Math.min(Math.max(common, guardLeft(levels), 0), Math.max(node.level, 0));
}

/** What is left of the reservation of the last child on the path. */
const guardLeft = (levels: readonly Level[]): number => Math.max((levels.at(-1) as Level).node.guard, 0);

const rememberedMs = ({ burst, requestsPerUnit, windowMs }: FairShareLimit): number =>
  forgetMs({ hit: windowMs, refillMs: (burst * windowMs) / requestsPerUnit });

/** The keys of a limit by which it is shared, as in a rule; none if it is not. */
export const writeSharing = ({ by, spare, path }: Partial<Sharing>): readonly string[] => {
  if (by === undefined) return [];
  return [
    path?.length === 0 && spare !== undefined ? `share: { by: ${by}, spare: ${spare}% }` : `share: { by: ${by} }`,
  ];
};

/** The same as JSON. */
export const listSharing = ({ by, path, threshold, spare }: Partial<Sharing>): object =>
  path === undefined
    ? {}
    : {
        share: {
          ...(by !== undefined && { by }),
          ...(path.length > 0 && { path }),
          ...(spare !== undefined && { spare }),
          ...(threshold !== undefined && { priority: threshold }),
        },
      };

/** The row of shared limits: rules have `share` beside a rate. */
export const fairShare: Counting<FairShareLimit> = {
  notARate: 'share divides the limit among children, and it applies to none of them alone',
  named: () => 'token_bucket',
  write: (limit) => [
    ...(limit.burst === limit.requestsPerUnit ? [] : [`burst: ${limit.burst}`]),
    ...writeSharing(limit),
  ],
  list: (limit) => ({ burst: limit.burst, ...listSharing(limit) }),
  capacity: ({ burst }) => burst,
  refillMs: rememberedMs,
  longestMemoryMs: (limit) => Math.max(rememberedMs(limit), unitMs.DAY),
  step,
  describe(limit, report, nowMs, outcome, claim) {
    const numbers = nameNumbers(scriptArgs(limit, nowMs, claim));
    const { rate, hit, capacity } = numbers;
    const [reason = 0, level = 0, atMs = 0, left = 0] = report;
    const nodes = report.slice(2);
    const levels = openLevels(numbers, nodes, atMs);
    const { node, guardCapacity } = levels.at(-1) as Level;
    return {
      code: outcome.accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore: Math.max(Math.ceil((capacity - left) / hit) - takenBy(outcome), 0),
      limitRemaining: Math.floor(findRoom(numbers, levels) / hit),
      durationUntilResetMs: Math.ceil((capacity - left) / rate),
      retryAfterMs: outcome.accepted ? 0 : findWaitMs(numbers, nodes, hitsToFit(outcome.hits)),
      delayMs: 0,
      soft: false,
      share: {
        reason: shareReasons[reason] ?? 'passed',
        level,
        used: levels.length > 1 ? node.used : 0,
        borrowed: levels.length > 1 ? node.borrowed : 0,
        unspent: guardCapacity > 0 ? Math.floor(guardLeft(levels) / hit) : 0,
        held: levels.length > 1 ? Math.ceil(heldForOthers(levels) / hit) : 0,
      },
    };
  },
  refund(limit, state, nowMs, hits, chargedAtMs, claim) {
    const numbers = nameNumbers(scriptArgs(limit, nowMs, claim));
    const levels = openLevels(numbers, state, nowMs);
    const root = levels[0] as Level;
    const isKept = state !== undefined && root.node.level < root.capacity;
    if (isKept) giveBack(numbers, levels, hits, chargedAtMs);
    return finishStep(numbers, levels, { state, nowMs, judgement: ACCEPTED, isKept });
  },
  heldAt: ({ windowMs }) => ({ first: 3, last: 3, unit: windowMs }),
  draw: () => ({ kind: 'level' }),
  isActiveChild: (state, nowMs, _child, limit) => isActiveChild(limit, state, nowMs),
  state: { hasNodes: true, version: 2 },
  script: new URL('./fair-share.lua', import.meta.url),
  scriptArgs,
};
