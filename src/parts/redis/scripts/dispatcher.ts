import type { State, Step } from '../../../engine/algorithms/limit.ts';
import { usedHits } from '../../../engine/backends/requests.ts';
import type { ShareNode } from '../../../engine/holds/nodes.ts';
import {
  call,
  logUsage,
  pack,
  packNumbers,
  readState,
  type ScriptAlgorithm,
  type ScriptLimit,
  serverMs,
  unpackNumbers,
  writeState,
} from './counters.ts';
import { argumentAt, limitAt, outcomes, runAt, treeAt, treeSpendAt } from './format.ts';
import { ARGV, KEYS, table, tonumber, unpack } from './lua.ts';
import { readNodes, writeNodes } from './nodes.ts';

/**
 * Runs the operations of a batch of requests: reads every counter once, steps, writes every changed counter. script.ts
 * assembles the script. Nearly all operations are independent spends, which are packed in runs. All others follow as
 * requests: see requests.ts. No earlier operation of the batch uses a counter of a run.
 *
 * The clock stands still in a script, so an algorithm with long states reads one once: its first step on a counter
 * prepares the state, and all of them change it in place. A step without a charge changes no outcome of later ones.
 */

/** By their places; script.ts defines each when a limit first needs it. */
declare const algorithms: readonly ScriptAlgorithm[];
/** Decides the requests that begin at a place of the input: see requests.ts. */
declare const decideRequests: (this: void, at: number) => void;

/** A caller's clock may be behind the server's, on which keys expire. */
const MAX_BEHIND_MS = 10_000;

/** The caller decides on a clock of its own, on which nothing expires: windows are stored as any other state. */
const hasGivenClock = (ARGV[argumentAt.clock] ?? '') !== '';
export const nowMs: number = hasGivenClock ? (tonumber(ARGV[argumentAt.clock]) ?? 0) : serverMs();
export const graceMs: number = hasGivenClock ? MAX_BEHIND_MS : 0;

/** The number of counters, with that of a settlement. */
const keyCount = ARGV[argumentAt.usage] !== undefined ? KEYS.length - 2 : KEYS.length;
export const input: readonly number[] = unpackNumbers(ARGV[argumentAt.packed] ?? '');
/** The values of counters. */
export const stored: (string | false)[] = call<(string | false)[]>('MGET', ...unpack(KEYS, 1, keyCount));
export const limits: ScriptLimit[] = [];

/** Returns the place after the limits. */
function readLimits(): number {
  const count = input[0] ?? 0;
  let at = 1;
  for (let place = 0; place < count; place++) {
    const first = at + limitAt.size;
    const algorithm = algorithms[(input[at + limitAt.algorithm] ?? 0) - 1] as ScriptAlgorithm;
    at = first + (input[at + limitAt.length] ?? 0);
    limits[place] = { algorithm, numbers: [...unpack(input, first + 1, at)] };
  }
  return at;
}

export function stateOf(key: number, limit: ScriptLimit, isSpent: boolean): State | undefined {
  return readState(KEYS[key - 1] ?? '', stored[key - 1] as string | false, limit, nowMs, isSpent);
}

/** Stores the new state. Returns it packed. */
export function keepState(
  key: number,
  before: State | undefined,
  state: State,
  ttlMs: number,
  limit: ScriptLimit,
): string {
  const packed = packNumbers(state);
  const keptMs = ttlMs > 0 ? ttlMs + graceMs : 0;
  const name = KEYS[key - 1] ?? '';
  stored[key - 1] = writeState(name, stored[key - 1] as string | false, before, state, packed, limit, nowMs, keptMs);
  return packed;
}

/** The reply: packed numbers. */
const reply: string[] = [pack('<d', nowMs)];
let parts = 1;

/** Packed outcomes and lengths, by the lengths of reports. */
const acceptedHeads: string[] = [];
const refusedHeads: string[] = [];

function addReply(accepted: boolean, length: number, packed: string): void {
  const heads = accepted ? acceptedHeads : refusedHeads;
  let head = heads[length];
  if (head === undefined) {
    head = pack('<dd', accepted ? outcomes.acceptedCharged : outcomes.refusedCharged, length);
    heads[length] = head;
  }
  reply[parts] = head;
  reply[parts + 1] = packed;
  parts = parts + 2;
}

/** Usage, by the places of what it is booked under, which are also listed. */
const used: Record<number, number> = {};
const usedPlaces: number[] = [];

export function meter(place: number, hits: number): void {
  const known = used[place];
  if (known === undefined) usedPlaces[usedPlaces.length] = place;
  used[place] = (known ?? 0) + hits;
}

function spendOnce(key: number, limit: ScriptLimit, hits: number, isMetered: boolean): void {
  const algorithm = limit.algorithm;
  const before = stateOf(key, limit, true);
  const next: Step = algorithm.step(limit.numbers, before, nowMs, hits, true);
  const packed = keepState(key, before, next.state, next.ttlMs, limit);
  const report = next.report;
  if (isMetered) meter(key, usedHits(algorithm.reserves, hits, next.accepted, report ?? next.state));
  if (report === undefined) addReply(next.accepted, next.state.length, packed);
  else addReply(next.accepted, report.length, packNumbers(report));
}

/** Numbers; sending and stepping a longer state costs more than the replies. */
const SHORT_STATE = 16;

/** The caller repeats the steps from the state before to learn the outcome of each, unless the state is long. */
function spendRepeatedly(key: number, limit: ScriptLimit, hits: number, count: number, isMetered: boolean): void {
  const algorithm = limit.algorithm;
  const before = stateOf(key, limit, true);
  const length = before === undefined ? 0 : before.length;
  const isLong = length > SHORT_STATE;
  if (!isLong) {
    reply[parts] = pack('<dd', outcomes.stateBefore, length);
    reply[parts + 1] = before === undefined ? '' : packNumbers(before);
    parts = parts + 2;
  }
  let state = before;
  let ttlMs = 0;
  for (let spent = 0; spent < count; spent++) {
    const next: Step = algorithm.step(limit.numbers, state, nowMs, hits, true);
    const report = next.report ?? next.state;
    state = next.state;
    ttlMs = next.ttlMs;
    if (isMetered) meter(key, usedHits(algorithm.reserves, hits, next.accepted, report));
    if (isLong) addReply(next.accepted, report.length, packNumbers(report));
  }
  keepState(key, before, state as State, ttlMs, limit);
}

/** Spends on the counters of a run, which begins at a place of the input. Returns the place after it. */
function spendRun(from: number): number {
  const limit = limits[(input[from + runAt.limit] ?? 0) - 1] as ScriptLimit;
  const hits = input[from + runAt.hits] ?? 0;
  const isMetered = input[from + runAt.isMetered] === 1;
  const first = from + runAt.size;
  const repeated = first + (input[from + runAt.once] ?? 0);
  const end = repeated + 2 * (input[from + runAt.repeated] ?? 0);
  for (let at = first; at < repeated; at++) spendOnce(input[at] ?? 0, limit, hits, isMetered);
  for (let at = repeated; at < end; at += 2)
    spendRepeatedly(input[at] ?? 0, limit, hits, input[at + 1] ?? 0, isMetered);
  return end;
}

/** Outcomes and reports that are packed together. */
const answers: number[] = [];

export function addAnswer(outcome: number, report: State): void {
  const length = report.length;
  const first = answers.length;
  answers[first] = outcome;
  answers[first + 1] = length;
  for (let at = 0; at < length; at++) answers[first + 2 + at] = report[at] ?? 0;
}

/** Spends on a shared limit, whose nodes are read and written once. Returns the place after the tree. */
function spendTree(from: number): number {
  const key = KEYS[(input[from + treeAt.key] ?? 0) - 1] ?? '';
  const children = from + treeAt.size;
  const spends = children + (input[from + treeAt.children] ?? 0);
  const count = input[from + treeAt.spends] ?? 0;
  const names: string[] = ['p'];
  for (let at = children; at < spends; at++) names[at - children + 1] = String(input[at] ?? 0);
  const nodes = readNodes(key, names);
  let ttlMs = 0;
  for (let spent = 0; spent < count; spent++) {
    const at = spends + spent * treeSpendAt.size;
    const limit = limits[(input[at + treeSpendAt.limit] ?? 0) - 1] as ScriptLimit;
    const hits = input[at + treeSpendAt.hits] ?? 0;
    const usage = input[at + treeSpendAt.usage] ?? 0;
    const path = [
      nodes[0] as ShareNode, // there always is a limit
      nodeAt(nodes, at + treeSpendAt.first),
      nodeAt(nodes, at + treeSpendAt.second),
      nodeAt(nodes, at + treeSpendAt.third),
    ];
    const next: Step = limit.algorithm.step(limit.numbers, path as unknown as State, nowMs, hits, true); // it takes nodes
    ttlMs = next.ttlMs;
    if (usage !== 0) meter(usage, usedHits(false, hits, next.accepted, next.state));
    addAnswer(next.accepted ? outcomes.acceptedCharged : outcomes.refusedCharged, next.report as State); // it has one
  }
  writeNodes(key, names, nodes, nowMs, ttlMs + graceMs);
  return spends + count * treeSpendAt.size;
}

/** The node whose place is in the input; that of the limit if there is none, which the step does not read. */
const nodeAt = (nodes: readonly ShareNode[], at: number): ShareNode => nodes[input[at] ?? 0] as ShareNode;

/** Spends the runs, or the trees, whose number is at a place of the input. Returns the place after them. */
function spendAll(from: number, spend: (this: void, at: number) => number): number {
  const count = input[from] ?? 0;
  let at = from + 1;
  for (let done = 0; done < count; done++) at = spend(at);
  return at;
}

/** The number of a settlement, which is counted once; 0 if the call is none. */
const settlement = tonumber(ARGV[argumentAt.settlement] ?? '') ?? 0;

function isSettled(): boolean {
  if (settlement === 0) return false;
  const last = stored[keyCount - 1] as string | false;
  return last !== false && settlement <= (tonumber(last) ?? 0);
}

/**
 * Returns little-endian doubles: the clock, and nothing else if the settlement was counted before; then per operation,
 * in the packed order, what `outcomes` says.
 */
export function run(): string {
  if (isSettled()) return packNumbers([nowMs]);
  const at = spendAll(spendAll(readLimits(), spendRun), spendTree);
  if (at < input.length) decideRequests(at);
  if (answers.length > 0) reply[parts] = packNumbers(answers);
  if (usedPlaces.length > 0) logUsage(nowMs, usedPlaces, used);
  if (settlement > 0)
    call('SET', KEYS[keyCount - 1] ?? '', ARGV[argumentAt.settlement] ?? '', 'PX', ARGV[argumentAt.keptMs] ?? '');
  return table.concat(reply);
}
