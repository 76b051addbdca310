import {
  type Charge,
  type HeldAt,
  MAX_COUNT,
  type State,
  type Step,
  spends,
} from '../../../engine/algorithms/limit.ts';
import { type CounterUse, type Hit, type HitStore, kinds, runRequest } from '../../../engine/backends/requests.ts';
import type { ShareNode } from '../../../engine/holds/nodes.ts';
import { call, packNumbers, type ScriptLimit, unpackNumbers } from './counters.ts';
import { addAnswer, graceMs, input, keepState, limits, meter, nowMs, stateOf, stored } from './dispatcher.ts';
import { heldAt, operationAt, outcomes, pathAt, requestAt, resetAt, roles } from './format.ts';
import { KEYS, string, tonumber, unpack } from './lua.ts';
import { newNode, readNodes, writeNodes } from './nodes.ts';

/**
 * The requests of a batch that runs cannot hold, in their order: sets of operations of which all or none are counted, and
 * operations other than spends. Every changed counter is written once.
 *
 * A counter that is shared with envoyproxy/ratelimit is a decimal count, which other programs change with INCRBY, under
 * a key that names its window.
 */

/** The nodes of a shared limit that the batch uses, by their names, and as they were before a request is tried. */
interface Nodes {
  readonly names: string[];
  nodes: Record<string, ShareNode>;
  saved: Record<string, ShareNode>;
}

/** A counter of the batch. */
interface ScriptCounter extends CounterUse {
  /** Its place in KEYS. */
  readonly key: number;
  state?: State | undefined;
  /** As it was read; undefined if there was none. */
  before?: State | undefined;
  /** How long it is kept from now on, and by which limit; no limit if it was not stepped. */
  ttlMs: number;
  limit?: ScriptLimit | undefined;
  isSaved: boolean;
  /** Its state, packed, before a request is tried; false if there was none. */
  saved: string | false;
  hash?: Nodes;
  /** The stored count of a counter that is shared with envoyproxy/ratelimit. */
  count: number;
  /** Why it cannot be used: a place in `outcomes`; 0 if it can. */
  problem: number;
}

interface ScriptHit extends Hit {
  readonly counter: ScriptCounter;
  readonly limit: ScriptLimit;
  /** The names of the nodes on its path; none if the limit is not shared. */
  readonly path: readonly string[] | undefined;
  /** What its usage is booked under. */
  readonly usage: number;
  /** Of a refund or a reset: see `resetAt`. */
  readonly resetKey: number;
  readonly resetMs: number;
}

/** The counters of the batch, also by their places. */
const counters: ScriptCounter[] = [];
const counterAt: (ScriptCounter | undefined)[] = [];
/** The counters that were saved. */
let saved: ScriptCounter[] = [];

function findCounter(key: number, limit: ScriptLimit): ScriptCounter {
  const known = counterAt[key - 1];
  if (known !== undefined) return known;
  const counter: ScriptCounter = {
    key,
    ttlMs: 0,
    isSaved: false,
    saved: false,
    uses: 0,
    asked: 0,
    count: 0,
    problem: 0,
    isUnusable: false,
  };
  if (limit.algorithm.isForeign === true) readForeign(counter);
  else if (limit.algorithm.hasNodes === true) counter.hash = { names: [], nodes: {}, saved: {} };
  else {
    counter.state = stateOf(key, limit, false);
    counter.before = counter.state;
  }
  counters[counters.length] = counter;
  counterAt[key - 1] = counter;
  return counter;
}

function readForeign(counter: ScriptCounter): void {
  const text = stored[counter.key - 1] as string | false; // as MGET replies
  const isEmpty = text === false && call<{ readonly ok: string }>('TYPE', KEYS[counter.key - 1] ?? '').ok === 'none';
  const isCount = text !== false && string.match(text, '^-?%d+$') !== undefined;
  counter.count = Math.min(text === false ? 0 : (tonumber(text) ?? 0), MAX_COUNT);
  counter.state = [Math.max(counter.count, 0)];
  if (isCount || isEmpty) return;
  counter.problem = text === false ? outcomes.wrongType : outcomes.noInteger;
  counter.isUnusable = true;
}

/** The place in the input that is read next. */
let cursor = 0;

function readHeld(): Required<HeldAt> {
  const at = cursor;
  cursor = at + heldAt.size;
  return {
    first: input[at + heldAt.first] ?? 0,
    last: input[at + heldAt.last] ?? 0,
    unit: input[at + heldAt.unit] ?? 0,
    most: input[at + heldAt.most] ?? 0,
  };
}

/** The names of the nodes on the path of an operation, which are to be read. */
function readPath(hash: Nodes): readonly string[] {
  const path: string[] = ['p'];
  const most = pathAt.size;
  for (let at = 0; at < most; at++) {
    const id = input[cursor + at] ?? 0;
    if (id !== 0) path[at + 1] = String(id);
  }
  cursor = cursor + pathAt.size;
  const count = path.length;
  for (let at = 0; at < count; at++) {
    const name = path[at] ?? '';
    if (hash.nodes[name] === undefined) {
      hash.nodes[name] = newNode();
      hash.names[hash.names.length] = name;
    }
  }
  return path;
}

function readHit(): ScriptHit {
  const at = cursor;
  const key = input[at + operationAt.key] ?? 0;
  const limit = limits[(input[at + operationAt.limit] ?? 0) - 1] as ScriptLimit;
  const algorithm = limit.algorithm;
  const kind = kinds[input[at + operationAt.kind] ?? 0] ?? 'peek';
  const role = input[at + operationAt.role];
  const isMetered = input[at + operationAt.isMetered] === 1;
  cursor = at + operationAt.size;
  const held = isMetered && kind === 'give_back' ? readHeld() : undefined;
  const reset = cursor;
  const isReset = kind === 'refund' || kind === 'forget';
  if (isReset) cursor = reset + resetAt.size;
  const counter = findCounter(key, limit);
  let usage = key;
  let path: readonly string[] | undefined;
  if (algorithm.hasNodes === true) {
    usage = input[cursor] ?? 0;
    cursor = cursor + 1;
    path = readPath(counter.hash as Nodes);
  }
  return {
    counter,
    limit,
    path,
    kind,
    hits: input[at + operationAt.hits] ?? 0,
    blocks: input[at + operationAt.blocks] === 1,
    isAlone: role === roles.alone,
    marksRefusal: role === roles.marks,
    isMetered,
    reserves: algorithm.reserves,
    commits: role === roles.commits,
    held,
    usage,
    resetKey: isReset ? (input[reset + resetAt.key] ?? 0) : 0,
    resetMs: isReset ? (input[reset + resetAt.ms] ?? 0) : 0,
  };
}

/** Reads the nodes of all operations, of each shared limit in one call. */
function readHash(counter: ScriptCounter, hash: Nodes): void {
  const names = hash.names;
  const nodes = readNodes(KEYS[counter.key - 1] ?? '', names);
  const count = names.length;
  for (let at = 0; at < count; at++) hash.nodes[names[at] ?? ''] = nodes[at] as ShareNode; // one for each
}

/** The state that a step gets: the nodes on its path, if the limit is shared. */
function stateFor(hit: ScriptHit): State | undefined {
  const hash = hit.counter.hash;
  const path = hit.path;
  if (hash === undefined || path === undefined) return hit.counter.state;
  if (isNew(hit)) return undefined;
  const nodes: ShareNode[] = [];
  const count = path.length;
  for (let at = 0; at < count; at++) nodes[at] = hash.nodes[path[at] ?? ''] as ShareNode; // of a path that was read
  return nodes as unknown as State; // its step takes nodes
}

function setState(hit: ScriptHit, state: State): void {
  const hash = hit.counter.hash;
  const path = hit.path;
  if (hash === undefined || path === undefined) {
    hit.counter.state = state;
    return;
  }
  const nodes = state as unknown as readonly ShareNode[]; // its step returns nodes
  const count = path.length;
  for (let at = 0; at < count; at++) hash.nodes[path[at] ?? ''] = nodes[at] as ShareNode; // one for each
}

function step(hit: ScriptHit, hits: number, charge: Charge): Step {
  return hit.limit.algorithm.step(hit.limit.numbers, stateFor(hit), nowMs, hits, charge);
}

/** A charge from before a reset is not part of the current state: none of its hits come back. */
function refund(hit: ScriptHit): Step {
  const resetAtMs = tonumber(stored[hit.resetKey - 1] as string | false); // as MGET replies
  const hits = resetAtMs !== undefined && hit.resetMs <= resetAtMs ? 0 : hit.hits;
  return hit.limit.algorithm.refund(hit.limit.numbers, stateFor(hit), nowMs, hits, hit.resetMs);
}

/** Resets a counter, and keeps the time of the reset. */
function forget(hit: ScriptHit): Step {
  const counter = hit.counter;
  const key = KEYS[counter.key - 1] ?? '';
  const before = counter.before;
  const hash = counter.hash;
  if (before !== undefined && hit.limit.algorithm.countsWindow) {
    call('SET', key, '0', 'KEEPTTL'); // see writeCount
    counter.before = [before[0] ?? 0, 0];
  } else if (!counter.isUnusable) {
    // what another program keeps under the key stays
    call('DEL', key);
    counter.before = undefined;
    stored[counter.key - 1] = false;
  }
  counter.state = undefined;
  counter.count = 0;
  counter.limit = undefined;
  if (hash !== undefined) {
    const count = hash.names.length;
    for (let at = 0; at < count; at++) hash.nodes[hash.names[at] ?? ''] = newNode();
  }
  const time = String(nowMs);
  call('SET', KEYS[hit.resetKey - 1] ?? '', time, 'PX', hit.resetMs);
  stored[hit.resetKey - 1] = time;
  return hit.limit.algorithm.step(hit.limit.numbers, undefined, nowMs, 0, false);
}

function isNew(hit: ScriptHit): boolean {
  const hash = hit.counter.hash;
  if (hash === undefined) return hit.counter.state === undefined;
  const limit = hash.nodes.p as ShareNode; // on each path
  return limit[0] === 0;
}

function keep(hit: ScriptHit, state: State, ttlMs: number): void {
  setState(hit, state);
  hit.counter.ttlMs = ttlMs;
  hit.counter.limit = hit.limit;
}

function save(hit: ScriptHit): void {
  const counter = hit.counter;
  const hash = counter.hash;
  const state = counter.state;
  if (counter.isSaved) return;
  counter.isSaved = true;
  saved[saved.length] = counter;
  counter.saved = state === undefined ? false : packNumbers(state);
  if (hash !== undefined) saveNodes(hash);
}

function saveNodes(hash: Nodes): void {
  const count = hash.names.length;
  for (let at = 0; at < count; at++) {
    const name = hash.names[at] ?? '';
    hash.saved[name] = [...unpack(hash.nodes[name] as ShareNode)] as ShareNode; // a copy
  }
}

function restore(): void {
  const count = saved.length;
  for (let at = 0; at < count; at++) {
    const counter = saved[at] as ScriptCounter; // in range
    const hash = counter.hash;
    const packed = counter.saved;
    counter.isSaved = false;
    counter.state = packed === false ? undefined : unpackNumbers(packed);
    if (hash !== undefined) {
      hash.nodes = hash.saved;
      hash.saved = {};
    }
  }
  if (count > 0) saved = [];
}

function meterHit(hit: ScriptHit, hits: number): void {
  meter(hit.usage, hits);
}

function answer(hit: ScriptHit, accepted: boolean, charged: Charge, report: State): void {
  const problem = hit.counter.problem;
  addAnswer(
    problem === 0 ? (accepted ? outcomes.accepted : 0) + (charged === false ? 0 : outcomes.refusedCharged) : problem,
    report,
  );
}

/** As in envoyproxy/ratelimit, a counter that other limits spare is kept as if it were hit. */
function spared(hit: ScriptHit): void {
  if (hit.limit.algorithm.isForeign === true) keep(hit, hit.counter.state ?? [0], hit.limit.numbers[1] ?? 0);
}

function writeHash(key: string, hash: Nodes, ttlMs: number): void {
  const nodes: ShareNode[] = [];
  const count = hash.names.length;
  for (let at = 0; at < count; at++) nodes[at] = hash.nodes[hash.names[at] ?? ''] as ShareNode; // one for each
  writeNodes(key, hash.names, nodes, nowMs, ttlMs);
}

function write(counter: ScriptCounter, limit: ScriptLimit): void {
  const key = KEYS[counter.key - 1] ?? '';
  const hash = counter.hash;
  const ttlMs = counter.ttlMs;
  const state = counter.state as State; // it was stepped
  if (limit.algorithm.isForeign === true) {
    if (counter.problem === 0) {
      call('INCRBY', key, String((state[0] ?? 0) - counter.count));
      call('EXPIRE', key, Math.ceil(ttlMs / 1000));
    }
  } else if (hash === undefined) keepState(counter.key, counter.before, state, ttlMs, limit);
  else if (ttlMs > 0) writeHash(key, hash, ttlMs + graceMs);
}

/** Runs the requests from a place of the input to its end. */
export function decide(from: number): void {
  const end = input.length;
  const requests: (readonly ScriptHit[])[] = [];
  const ways: number[] = [];
  cursor = from;
  while (cursor < end) {
    const count = input[cursor + requestAt.count] ?? 0;
    const hits: ScriptHit[] = [];
    ways[ways.length] = input[cursor + requestAt.spend] ?? 0;
    cursor = cursor + requestAt.size;
    for (let at = 0; at < count; at++) hits[at] = readHit();
    requests[requests.length] = hits;
  }
  const counterCount = counters.length;
  for (let at = 0; at < counterCount; at++) {
    const counter = counters[at] as ScriptCounter; // in range
    if (counter.hash !== undefined) readHash(counter, counter.hash);
  }
  const store: HitStore<ScriptHit> = {
    step,
    refund,
    forget,
    isNew,
    keep,
    save,
    assume: setState,
    restore,
    spared,
    meter: meterHit,
    answer,
  };
  const requestCount = requests.length;
  for (let at = 0; at < requestCount; at++)
    runRequest(store, requests[at] as readonly ScriptHit[], spends[ways[at] ?? 0] ?? 'each');
  for (let at = 0; at < counterCount; at++) {
    const counter = counters[at] as ScriptCounter; // in range
    if (counter.limit !== undefined) write(counter, counter.limit);
  }
}
