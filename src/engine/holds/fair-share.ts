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
import {
  ACCEPTED,
  type AdmissionLevel,
  admissionScript,
  findRoom,
  type Judgement,
  judge,
  unspent,
} from './admission.ts';
import { type Claim, hashHolder, type ShareClaim } from './claim.ts';
import type { Counting } from './counting.ts';
import { shareReasons } from './reports.ts';

/** What a rule gives to one child of a shared limit, or of a child with children. */
export interface ChildNumbers {
  /** The entry's key, for messages. */
  readonly key: string;
  /** Hits per second that no sibling can take from it while it is active; 0 for none. */
  readonly reserve: number;
  /** Its part of what is left, relative to its siblings; at least 1. */
  readonly weight: number;
  /** Maximum hits per second; 0 for no maximum of its own. */
  readonly ceiling: number;
}

/** How children share a limit. */
export interface Sharing {
  /** The entry's key by whose values hits are shared; absent below the last level. */
  readonly by?: string;
  /** The children from the top to the one that hits of this rule belong to; empty for hits of no child. */
  readonly path: readonly ChildNumbers[];
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

/** Numbers of each node in a state: the parent's first, then those of the children on the path. */
const NODE_NUMBERS = 15;

/** Token buckets are counted in thousandths, so that a rate per second is an integer per millisecond. */
const MILLI = 1_000;
/** Children are active in the window of their last hit, and in the next. */
const ACTIVE_MS = unitMs.SECOND;
/** Virtual time that passes in a millisecond if one child of weight 1 uses the whole rate. */
const UNITS_PER_MS = 1_000_000;
/** A child may lag behind virtual time by its share of this time, and catch up at once. */
const CREDIT_MS = 250;
/** Longest virtual time; it starts over then. */
const MAX_VIRTUAL = 2 ** 52;

/** The parent, or a child. A new one is all zeros. */
interface FairNode {
  /** Time of the last step. */
  atMs: number;
  /** Used and not refilled yet, in thousandths of a hit: of the limit, or of the reservation; and of the ceiling. */
  spent: number;
  capped: number;
  /** Virtual time, on its parent's clock, up to which it has used its fair share. */
  finish: number;
  /** The unspent reservation that its parent has counted. */
  unspent: number;
  /** `bornMs` of its parent: a parent that was lost has no children. */
  parentBornMs: number;
  bornMs: number;
  /** Virtual time of its children, and the latest of their `finish`. */
  virtual: number;
  latest: number;
  /** Sums over its active children: those of this window, and those last seen in the window before. */
  weight: number;
  weightBefore: number;
  reserved: number;
  reservedBefore: number;
  /** Hits in this window, and how many of them its reservation did not cover. */
  used: number;
  borrowed: number;
}

const readNode = (state: State, at: number): FairNode => ({
  atMs: state[at] ?? 0,
  spent: state[at + 1] ?? 0,
  capped: state[at + 2] ?? 0,
  finish: state[at + 3] ?? 0,
  unspent: state[at + 4] ?? 0,
  parentBornMs: state[at + 5] ?? 0,
  bornMs: state[at + 6] ?? 0,
  virtual: state[at + 7] ?? 0,
  latest: state[at + 8] ?? 0,
  weight: state[at + 9] ?? 0,
  weightBefore: state[at + 10] ?? 0,
  reserved: state[at + 11] ?? 0,
  reservedBefore: state[at + 12] ?? 0,
  used: state[at + 13] ?? 0,
  borrowed: state[at + 14] ?? 0,
});

function writeNode(into: number[], node: FairNode): void {
  into.push(node.atMs, node.spent, node.capped, node.finish, node.unspent, node.parentBornMs, node.bornMs);
  into.push(node.virtual, node.latest, node.weight, node.weightBefore, node.reserved, node.reservedBefore);
  into.push(node.used, node.borrowed);
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

/** A node on the path during a step; capacities in thousandths of a hit. */
interface Level extends AdmissionLevel {
  node: FairNode;
  readonly capacity: number;
  readonly weight: number;
  readonly ceiling: number;
  readonly ceilingCapacity: number;
  /** None of its other children is active. */
  isAlone: boolean;
  /** See `findFill`. */
  fill: number;
  /** Virtual time per millisecond when demand equals supply. */
  speed: number;
  /** How far its child may lag behind virtual time. */
  credit: number;
  /** Virtual time on the parent's clock at which its next hit starts. */
  start: number;
}

/**
 * Fair shares: a token bucket that children, and their children, divide. Twin of fair-share.lua. State: the numbers of
 * the parent, then those of each child on the path. Children that are not on it are only in the parent's sums, so that
 * a step costs the same for any number of them.
 *
 * A child's reservation is a token bucket of its own. Its hits are paid by the reservation, or else borrowed: these
 * leave the unspent reservations of active siblings in the bucket, and are divided by weight. For that a parent has a
 * virtual time, which passes the faster the fuller the bucket is, and each child the virtual time up to which it has
 * borrowed. A child that is ahead waits. The bucket empties or fills until virtual time advances as fast as the
 * children with more demand than their share allow: weighted max-min fairness. A child alone may use everything.
 *
 * @param nowMs   may run backwards; that refills nothing
 * @param hits    0 peeks, a negative number gives hits back
 * @param charge  false to leave the counter unchanged and only return the outcome
 * @see https://dl.acm.org/doi/10.1145/248156.248171 (start-time fair queueing)
 * @see https://man7.org/linux/man-pages/man8/tc-htb.8.html
 */
const step: Counting<FairShareLimit>['step'] = (limit, state, nowMs, hits, charge, claim) => {
  const numbers = scriptArgs(limit, nowMs, claim);
  const levels = openLevels(numbers, state, nowMs);
  measure(levels);
  const judgement = hits < 0 ? ACCEPTED : judge(levels, hitsToFit(hits) * MILLI, numbers[3] ?? 0);
  const accepted = judgement[0] === 0;
  const waitMs = accepted ? 0 : findWaitMs(numbers, levels, hitsToFit(hits));
  if (hits !== 0 && (charge === 'regardless' || (charge && accepted))) take(numbers, levels, hits);
  const report = createReport(numbers, levels, judgement, waitMs);
  if (charge && hits !== 0) return { accepted, state: closeLevels(levels), ttlMs: ttlMs(levels, nowMs), report };
  return unchanged(levels, state, nowMs, { accepted, report });
};

/** The result of a step that counts nothing. */
const unchanged = (
  levels: readonly Level[],
  state: State | undefined,
  nowMs: number,
  result: Pick<Step, 'accepted' | 'report'>,
): Step =>
  state
    ? { ...result, state, ttlMs: ttlMs(levels, nowMs) }
    : { ...result, state: Array.from({ length: levels.length * NODE_NUMBERS }, () => 0), ttlMs: 0 };

/** Numbers of a limit before those of the children on the path: see fair-share.lua. */
const FIRST_LEVEL = 5;
const LEVEL_NUMBERS = 6;

/** Reads the nodes, refills their buckets, and advances the virtual time of each parent. */
function openLevels(numbers: readonly number[], state: State | undefined, nowMs: number): readonly Level[] {
  const [rate = 0, capacity = 0, depth = 0, floor = 0, isCritical = 0] = numbers;
  const levels = [openLevel(readNode(state ?? [], 0), [0, rate, capacity, 1, 0, 0], 0)];
  const root = levels[0] as Level;
  const atMs = Math.max(nowMs, root.node.atMs);
  let sinceMs = refresh(root, atMs);
  let perMs = UNITS_PER_MS;
  for (let at = 1; at <= depth; at++) {
    const parent = levels[at - 1] as Level;
    const first = FIRST_LEVEL + (at - 1) * LEVEL_NUMBERS;
    const read = readNode(state ?? [], at * NODE_NUMBERS);
    const level = openLevel(read, numbers.slice(first, first + LEVEL_NUMBERS), parent.node.bornMs);
    leave(parent, level.node, level.weight, atMs);
    const ownSinceMs = refresh(level, atMs);
    const { node } = parent;
    const weights = node.weight + node.weightBefore + level.weight;
    parent.held = node.reserved + node.reservedBefore;
    parent.isAlone = weights <= level.weight;
    parent.speed = perMs / weights;
    parent.credit = Math.floor(parent.speed * CREDIT_MS);
    parent.fill = findFill(parent, levels[at - 2], at === 1 ? floor : 0);
    advance(parent, sinceMs);
    const earliest = node.virtual - parent.credit;
    level.start = Math.min(Math.max(level.node.finish, earliest), Math.max(node.latest, earliest));
    level.isAhead = !parent.isAlone && isCritical !== 1 && level.start > node.virtual;
    if (!parent.isAlone) perMs = (UNITS_PER_MS * level.reserve) / rate + (perMs * level.weight) / weights;
    sinceMs = ownSinceMs;
    levels.push(level);
  }
  const last = levels[depth] as Level;
  last.held = last.node.reserved + last.node.reservedBefore;
  return levels;
}

function openLevel(read: FairNode, numbers: readonly number[], parentBornMs: number): Level {
  const [, reserve = 0, capacity = 0, weight = 1, ceiling = 0, ceilingCapacity = 0] = numbers;
  const isKnown = read.bornMs > 0 && read.parentBornMs === parentBornMs;
  const node = isKnown ? read : { ...readNode([], 0), parentBornMs };
  return {
    node,
    reserve,
    capacity,
    weight,
    ceiling,
    ceilingCapacity,
    left: 0,
    ceilingLeft: 0,
    held: 0,
    isAhead: false,
    isAlone: true,
    fill: 0,
    speed: 0,
    credit: 0,
    start: 0,
    pays: false,
  };
}

const windowOf = (ms: number): number => Math.floor(ms / ACTIVE_MS);

/** Takes the child out of its parent's sums; `closeLevels` adds it again. */
function leave({ node }: Level, child: FairNode, weight: number, atMs: number): void {
  if (child.bornMs === 0) return;
  const age = windowOf(atMs) - windowOf(child.atMs);
  if (age === 0) {
    node.weight = Math.max(node.weight - weight, 0);
    node.reserved = Math.max(node.reserved - child.unspent, 0);
  } else if (age === 1) {
    node.weightBefore = Math.max(node.weightBefore - weight, 0);
    node.reservedBefore = Math.max(node.reservedBefore - child.unspent, 0);
  }
}

/** Refills the buckets of a node, and forgets what is too old. @returns the time since its last step */
function refresh(level: Level, atMs: number): number {
  const { node, reserve, ceiling } = level;
  const sinceMs = Math.max(atMs - node.atMs, 0);
  node.spent = Math.max(node.spent - sinceMs * reserve, 0);
  node.capped = Math.max(node.capped - sinceMs * ceiling, 0);
  const windows = windowOf(atMs) - windowOf(node.atMs);
  if (node.bornMs === 0 || (windows > 1 && node.spent === 0 && node.capped === 0)) {
    level.node = { ...readNode([], 0), parentBornMs: node.parentBornMs, bornMs: atMs, atMs };
    return 0;
  }
  if (windows > 0) {
    node.weightBefore = windows === 1 ? node.weight : 0;
    node.reservedBefore = windows === 1 ? node.reserved : 0;
    node.weight = 0;
    node.reserved = 0;
    node.used = 0;
    node.borrowed = 0;
  }
  node.atMs = Math.max(atMs, node.atMs);
  return sinceMs;
}

/**
 * How much is left of what a node may give its children: 1 if something would be lost soon, 0 or less if there is
 * nothing. That is the bucket of the limit, or the fuller one of a child's reservation and its lag behind virtual time.
 */
function findFill(level: Level, parent: Level | undefined, floor: number): number {
  const { node, reserve, capacity, held, start, ceiling, ceilingCapacity } = level;
  const own = fillOf(capacity, node.spent, Math.max(held, floor));
  if (!parent) return own;
  const share = parent.credit > 0 ? Math.max(parent.node.virtual - start, 0) / parent.credit : 1;
  // a node that is alone uses nothing of its share
  const fill = parent.isAlone ? parent.fill : reserve > 0 ? Math.max(own, share) : share;
  return ceiling > 0 ? Math.min(fill, fillOf(ceilingCapacity, node.capped, held)) : fill;
}

/** The part of a bucket that is left above what is kept for others. */
const fillOf = (capacity: number, spent: number, kept: number): number =>
  capacity > kept ? (capacity - spent - kept) / (capacity - kept) : spent <= 0 ? 1 : 0;

/** Advances virtual time, but never far beyond what the children have used. */
function advance({ node, speed, credit, fill }: Level, sinceMs: number): void {
  if (node.latest >= MAX_VIRTUAL) {
    node.latest = 0;
    node.virtual = 0;
  }
  const most = Math.max(node.virtual, node.latest + credit);
  if (fill >= 1) node.virtual = most;
  else if (fill > 0) node.virtual = Math.min(node.virtual + Math.floor((sinceMs * speed * fill) / (1 - fill)), most);
}

const NEVER = -1;

/** The time until refused hits could pass. */
function findWaitMs(numbers: readonly number[], levels: readonly Level[], hits: number): number {
  const [rate = 0, capacity = 0, depth = 0, floor = 0] = numbers;
  const [root, leaf] = [levels[0] as Level, levels[depth] as Level];
  const wanted = hits * MILLI;
  const room = root.left - wanted;
  const kept = levels[1]?.pays ? 0 : Math.max(root.held, floor);
  let waitMs = Math.ceil((kept - room) / rate);
  for (let at = 1; at <= depth; at++) {
    const [parent, level] = [levels[at - 1] as Level, levels[at] as Level];
    if (!level.isAhead || level.pays) continue;
    const ahead = level.start - parent.node.virtual;
    waitMs = Math.max(waitMs, Math.min(Math.ceil(ahead / parent.speed), ACTIVE_MS));
  }
  if (depth > 0 && leaf.reserve > 0 && wanted <= leaf.capacity)
    waitMs = Math.min(waitMs, Math.max(Math.ceil((wanted - leaf.left) / leaf.reserve), Math.ceil(-room / rate), 0));
  for (let at = 1; at <= depth; at++) {
    const { held, ceiling, ceilingCapacity, ceilingLeft } = levels[at] as Level;
    const over = wanted + (levels[at + 1]?.pays ? 0 : held) - ceilingLeft;
    if (over <= 0) continue;
    if (wanted > ceilingCapacity) return NEVER;
    waitMs = Math.max(waitMs, Math.ceil(over / ceiling));
  }
  return wanted > capacity ? NEVER : Math.max(waitMs, 1);
}

/** The virtual time that a child uses with these hits. */
const virtualCost = (hits: number, rate: number, weight: number): number =>
  Math.min(Math.ceil((hits * UNITS_PER_MS * MILLI) / (rate * weight)), MAX_VIRTUAL);

/** Counts hits; negative ones are given back. */
function take(numbers: readonly number[], levels: readonly Level[], hits: number): void {
  const [rate = 0, , depth = 0, , isCritical = 0] = numbers;
  const root = levels[0] as Level;
  root.node.spent = bounded(root.node.spent + hits * MILLI);
  for (let at = 1; at <= depth; at++) {
    const parent = levels[at - 1] as Level;
    const { node, reserve, weight, ceiling, start, pays } = levels[at] as Level;
    if (ceiling > 0) node.capped = bounded(node.capped + hits * MILLI);
    node.used = bounded(node.used + hits);
    if (pays || (hits < 0 && reserve > 0)) node.spent = bounded(node.spent + hits * MILLI);
    else {
      const isFree = parent.isAlone || isCritical === 1;
      const from = hits < 0 ? node.finish : start;
      const cost = isFree && hits > 0 ? 0 : virtualCost(hits, rate, weight);
      node.finish = Math.min(Math.max(from + cost, 0), MAX_VIRTUAL);
      node.borrowed = bounded(node.borrowed + hits);
      parent.node.latest = Math.max(parent.node.latest, node.finish);
    }
  }
}

const bounded = (count: number): number => Math.min(Math.max(count, 0), MAX_COUNT);

/** Adds the children to the sums of their parents. @returns the state */
function closeLevels(levels: readonly Level[]): State {
  for (let at = 1; at < levels.length; at++) {
    const { node, reserve, capacity, weight } = levels[at] as Level;
    const parent = (levels[at - 1] as Level).node;
    node.unspent = reserve > 0 ? Math.max(capacity - node.spent, 0) : 0;
    parent.weight = Math.min(parent.weight + weight, MAX_COUNT);
    parent.reserved = Math.min(parent.reserved + node.unspent, MAX_COUNT);
  }
  const state: number[] = [];
  for (const { node } of levels) writeNode(state, node);
  return state;
}

/** The time until all buckets on the path are full, and their children no longer active: a step starts anew then. */
function ttlMs(levels: readonly Level[], nowMs: number): number {
  let fullMs = 0;
  for (const { node, reserve, ceiling } of levels) {
    if (reserve > 0) fullMs = Math.max(fullMs, Math.ceil(node.spent / reserve));
    if (ceiling > 0) fullMs = Math.max(fullMs, Math.ceil(node.capped / ceiling));
  }
  const { atMs } = (levels[0] as Level).node;
  return 2 * ACTIVE_MS + fullMs + atMs - nowMs;
}

/** Measures what is left after the hits that are counted so far. */
function measure(levels: readonly Level[]): void {
  for (const level of levels) {
    const { node, capacity, ceiling, ceilingCapacity } = level;
    level.left = capacity - node.spent;
    level.ceilingLeft = ceiling > 0 ? ceilingCapacity - node.capped : Number.POSITIVE_INFINITY;
  }
}

/** Reason, level, wait; spent of the parent; room for the child; its used and borrowed hits; its unspent reservation. */
function createReport(
  [rate = 0, , depth = 0, floor = 0]: readonly number[],
  levels: readonly Level[],
  [reason, at]: Judgement,
  waitMs: number,
): State {
  measure(levels);
  const { node, held } = levels[0] as Level;
  const { used, borrowed } = (levels[depth] as Level).node;
  const room = findRoom(levels, floor);
  const fullMs = Math.ceil(node.spent / rate);
  return [reason, at, waitMs, node.spent, room, used, borrowed, unspent(levels), depth > 0 ? held : 0, fullMs];
}

function scriptArgs(limit: FairShareLimit, _nowMs: number, claim?: Claim): readonly number[] {
  const { requestsPerUnit, burst, path } = limit;
  const { children = [], threshold = limit.threshold } = claim?.share ?? {};
  const capacity = burst * MILLI;
  const depth = Math.min(path.length, children.length);
  const floor = threshold === undefined ? 0 : Math.floor((capacity * (100 - threshold)) / 100);
  const numbers = [requestsPerUnit, capacity, depth, floor, threshold === CRITICAL ? 1 : 0];
  for (let at = 0; at < depth; at++) {
    const { reserve, weight, ceiling } = path[at] as ChildNumbers; // in range
    const part = (rate: number): number =>
      rate === 0 ? 0 : Math.max(Math.floor((rate * capacity) / requestsPerUnit), MILLI);
    numbers.push(children[at] as number, reserve, part(reserve), weight, ceiling, part(ceiling));
  }
  return numbers;
}

/** Whether the last child in a state has had hits in this window, or in the one before. */
function isActiveChild(state: State | undefined, nowMs: number): boolean {
  const { atMs } = readNode(state ?? [], (state?.length ?? 0) - NODE_NUMBERS);
  return windowOf(nowMs) - windowOf(atMs) <= 1;
}

/** How long a bucket with a debt of a whole bucket keeps hits, and its children their shares. */
const sharedRefillMs = ({ burst, requestsPerUnit }: FairShareLimit): number =>
  Math.ceil((2 * burst * MILLI) / requestsPerUnit) + 2 * ACTIVE_MS;

/** The keys of a limit by which it is shared, as in a rule; none if it is not. */
export const writeSharing = ({ by }: Partial<Sharing>): readonly string[] =>
  by === undefined ? [] : [`share: { by: ${by} }`];

/** The same as JSON. */
export const listSharing = ({ by, path, threshold }: Partial<Sharing>): object =>
  path === undefined
    ? {}
    : {
        share: {
          ...(by !== undefined && { by }),
          ...(path.length > 0 && { path }),
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
  refillMs: sharedRefillMs,
  longestMemoryMs: (limit) => Math.max(sharedRefillMs(limit), unitMs.DAY),
  step,
  describe(limit, report, _nowMs, outcome) {
    const [reason = 0, level = 0, waitMs = 0, spent = 0, room = 0, used = 0, borrowed = 0, unspent = 0, held = 0] =
      report;
    const isNever = waitMs === NEVER || hitsToFit(outcome.hits) > limit.burst;
    return {
      code: outcome.accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore: Math.max(Math.ceil(spent / MILLI) - takenBy(outcome), 0),
      limitRemaining: Math.floor(room / MILLI),
      durationUntilResetMs: report[9] ?? 0,
      retryAfterMs: outcome.accepted ? 0 : isNever ? NEVER_MS : Math.max(waitMs, 1),
      delayMs: 0,
      soft: false,
      share: {
        reason: shareReasons[reason] ?? 'passed',
        level,
        used,
        borrowed,
        unspent: Math.floor(unspent / MILLI),
        held: Math.ceil(held / MILLI),
      },
    };
  },
  refund(limit, state, nowMs, hits, chargedAtMs, claim) {
    const numbers = scriptArgs(limit, nowMs, claim);
    const levels = openLevels(numbers, state, nowMs);
    const root = levels[0] as Level;
    if (root.node.spent === 0) {
      const report = createReport(numbers, levels, ACCEPTED, 0);
      return unchanged(levels, state, nowMs, { accepted: true, report });
    }
    const sinceMs = Math.max(root.node.atMs - chargedAtMs, 0);
    const back = (rate: number): number => Math.max(hits * MILLI - sinceMs * rate, 0);
    root.node.spent = bounded(root.node.spent - back(root.reserve));
    for (let at = 1; at < levels.length; at++) {
      const { node, reserve, ceiling } = levels[at] as Level;
      node.capped = bounded(node.capped - back(ceiling));
      node.spent = bounded(node.spent - back(reserve));
      node.used = bounded(node.used - hits);
    }
    const report = createReport(numbers, levels, ACCEPTED, 0);
    return { accepted: true, state: closeLevels(levels), ttlMs: ttlMs(levels, nowMs), report } satisfies Step;
  },
  draw: () => ({ kind: 'level' }),
  isActiveChild,
  state: { hasNodes: true },
  includes: [admissionScript],
  script: new URL('./fair-share.lua', import.meta.url),
  scriptArgs,
};
