import { type Charge, type HeldAt, MAX_COUNT, type State, type Step, spends } from '../../../algorithms/limit.ts';
import { NODE_NUMBERS } from '../../../holds/processor-sharing.ts';
import { KEYS, redis, string, tonumber, unpack } from '../../../lua/redis.ts';
import { type CounterUse, type Hit, type HitStore, kinds, runRequest } from '../../requests.ts';
import { call, packNumbers, type ScriptLimit, unpackNumbers, unpackState } from './counters.ts';
import { graceMs, input, keepState, limits, meter, nowMs, stateOf, stored } from './dispatcher.ts';
import { heldNumbers, operationNumbers, outcomes, requestNumbers, resetNumbers, roles } from './format.ts';

/**
 * The requests of a batch that runs cannot hold, in their order: sets of operations of which all or none are counted, and
 * operations other than spends. Every changed counter is written once.
 *
 * The counters of a shared limit are a hash: the limit's own numbers in the field p, those of each child under its id.
 * A step gets and returns the nodes on its path, and changes them in place if it charges.
 *
 * A counter that is shared with envoyproxy/ratelimit is a decimal count, which other programs change with INCRBY, under
 * a key that names its window.
 */

/** The numbers of a node; false if there is none. */
type Node = State | false;

/** The hash of a shared limit. */
interface Nodes {
  /** The fields that the batch uses, in the order in which they were read, and their nodes. */
  readonly fields: string[];
  nodes: Record<string, Node>;
  changed: Record<string, boolean>;
  /** The nodes and changes before a request is tried. */
  savedNodes: Record<string, Node>;
  savedChanged: Record<string, boolean>;
}

/** A counter of the batch. */
interface ScriptCounter extends CounterUse {
  /** Its place in KEYS. */
  readonly key: number;
  state: State | undefined;
  /** As it was read; undefined if there was none. */
  before: State | undefined;
  /** How long it is kept from now on, and by which limit; no limit if it was not stepped. */
  ttlMs: number;
  limit: ScriptLimit | undefined;
  isSaved: boolean;
  /** Its state, packed, before a request is tried; false if there was none. */
  saved: string | false;
  readonly hash: Nodes | undefined;
  /** The stored count of a counter that is shared with envoyproxy/ratelimit. */
  readonly count: number;
  /** Why it cannot be used: a place in `outcomes`; 0 if it can. */
  readonly problem: number;
}

interface ScriptHit extends Hit {
  readonly counter: ScriptCounter;
  readonly limit: ScriptLimit;
  /** The fields of the nodes on its path; none if the limit is not shared. */
  readonly path: readonly string[] | undefined;
  /** The place in KEYS of the name of its usage. */
  readonly usage: number;
  /** Of a refund or a reset: see `resetNumbers`. */
  readonly resetKey: number;
  readonly resetMs: number;
}

const WRONG_TYPE = outcomes.indexOf('wrong_type');
const NO_INTEGER = outcomes.indexOf('no_integer');
const ACCEPTED = outcomes.indexOf('accepted');
const REFUSED_CHARGED = outcomes.indexOf('refused_charged');

const KEY = operationNumbers.indexOf('key');
const LIMIT = operationNumbers.indexOf('limit');
const HITS = operationNumbers.indexOf('hits');
const KIND = operationNumbers.indexOf('kind');
const ROLE = operationNumbers.indexOf('role');
const BLOCKS = operationNumbers.indexOf('blocks');
const IS_METERED = operationNumbers.indexOf('isMetered');
const OPERATION_NUMBERS = operationNumbers.length;
const ALONE = roles.indexOf('alone');
const COMMITS = roles.indexOf('commits');
const MARKS = roles.indexOf('marks');

const FIRST = heldNumbers.indexOf('first');
const LAST = heldNumbers.indexOf('last');
const UNIT = heldNumbers.indexOf('unit');
const MOST = heldNumbers.indexOf('most');
const HELD_NUMBERS = heldNumbers.length;

const RESET_KEY = resetNumbers.indexOf('key');
const RESET_MS = resetNumbers.indexOf('ms');
const RESET_NUMBERS = resetNumbers.length;

const SPEND = requestNumbers.indexOf('spend');
const COUNT = requestNumbers.indexOf('count');
const REQUEST_NUMBERS = requestNumbers.length;

/** The counters of the batch, also by their places. */
const counters: ScriptCounter[] = [];
const counterAt: (ScriptCounter | undefined)[] = [];
/** The counters that were saved. */
let saved: ScriptCounter[] = [];
const output: number[] = [];

function findCounter(key: number, limit: ScriptLimit): ScriptCounter {
  const known = counterAt[key - 1];
  if (known !== undefined) return known;
  const counter = limit.algorithm.isForeign === true ? readForeign(key) : readOwn(key, limit);
  counters[counters.length] = counter;
  counterAt[key - 1] = counter;
  return counter;
}

function readOwn(key: number, limit: ScriptLimit): ScriptCounter {
  const isHash = limit.algorithm.fields !== undefined;
  const state = isHash ? undefined : stateOf(key, limit, false);
  return makeCounter(key, state, isHash ? makeNodes() : undefined, 0, 0);
}

function readForeign(key: number): ScriptCounter {
  const text = stored[key - 1] as string | false; // as MGET replies
  const isEmpty = text === false && redis.call<{ readonly ok: string }>('TYPE', KEYS[key - 1] ?? '').ok === 'none';
  const isCount = text !== false && string.match(text, '^-?%d+$') !== undefined;
  const count = Math.min(text === false ? 0 : (tonumber(text) ?? 0), MAX_COUNT);
  let problem = 0;
  if (!isCount && !isEmpty) problem = text === false ? WRONG_TYPE : NO_INTEGER;
  return makeCounter(key, [Math.max(count, 0)], undefined, count, problem);
}

function makeCounter(
  key: number,
  state: State | undefined,
  hash: Nodes | undefined,
  count: number,
  problem: number,
): ScriptCounter {
  return {
    key,
    state,
    before: state,
    ttlMs: 0,
    limit: undefined,
    isSaved: false,
    saved: false,
    hash,
    count,
    problem,
    isUnusable: problem !== 0,
    uses: 0,
    asked: 0,
  };
}

function makeNodes(): Nodes {
  return { fields: [], nodes: {}, changed: {}, savedNodes: {}, savedChanged: {} };
}

/** The fields of a hash, or an error. */
interface Fields extends ReadonlyArray<string | false> {
  readonly err?: string;
}

/** The nodes on the path of an operation are to be read. */
function wantNodes(hash: Nodes, path: readonly string[]): void {
  const count = path.length;
  for (let at = 0; at < count; at++) {
    const field = path[at] ?? '';
    if (hash.nodes[field] === undefined) {
      hash.nodes[field] = false;
      hash.fields[hash.fields.length] = field;
    }
  }
}

/** The place in the input that is read next. */
let cursor = 0;

function readHeld(): Required<HeldAt> {
  const at = cursor;
  cursor = at + HELD_NUMBERS;
  return {
    first: input[at + FIRST] ?? 0,
    last: input[at + LAST] ?? 0,
    unit: input[at + UNIT] ?? 0,
    most: input[at + MOST] ?? 0,
  };
}

function readHit(): ScriptHit {
  const at = cursor;
  const key = input[at + KEY] ?? 0;
  const limit = limits[(input[at + LIMIT] ?? 0) - 1] as ScriptLimit;
  const algorithm = limit.algorithm;
  const kind = kinds[input[at + KIND] ?? 0] ?? 'peek';
  const role = input[at + ROLE];
  const isMetered = input[at + IS_METERED] === 1;
  cursor = at + OPERATION_NUMBERS;
  const held = isMetered && kind === 'give_back' ? readHeld() : undefined;
  const reset = cursor;
  const isReset = kind === 'refund' || kind === 'forget';
  if (isReset) cursor = reset + RESET_NUMBERS;
  const counter = findCounter(key, limit);
  let usage = key;
  let path: readonly string[] | undefined;
  if (algorithm.fields !== undefined) {
    usage = input[cursor] ?? 0;
    cursor = cursor + 1;
    path = algorithm.fields(limit.numbers);
    wantNodes(counter.hash as Nodes, path);
  }
  return {
    counter,
    limit,
    path,
    kind,
    hits: input[at + HITS] ?? 0,
    blocks: input[at + BLOCKS] === 1,
    isAlone: role === ALONE,
    marksRefusal: role === MARKS,
    isMetered,
    reserves: algorithm.reserves,
    commits: role === COMMITS,
    held,
    usage,
    resetKey: isReset ? (input[reset + RESET_KEY] ?? 0) : 0,
    resetMs: isReset ? (input[reset + RESET_MS] ?? 0) : 0,
  };
}

/** Reads the nodes of all operations, of each shared limit in one call. */
function readNodes(counter: ScriptCounter, hash: Nodes): void {
  const key = KEYS[counter.key - 1] ?? '';
  const fields = hash.fields;
  const read = redis.pcall<Fields>('HMGET', key, ...unpack(fields));
  if (read.err !== undefined) {
    call('DEL', key); // another program's value
    return;
  }
  const count = fields.length;
  for (let at = 0; at < count; at++)
    hash.nodes[fields[at] ?? ''] = unpackState(read[at] as string | false, NODE_NUMBERS) ?? false;
}

/** The state that a step gets: the nodes on its path, if the limit is shared. */
function stateFor(hit: ScriptHit): State | undefined {
  const hash = hit.counter.hash;
  const path = hit.path;
  if (hash === undefined || path === undefined) return hit.counter.state;
  if (hash.nodes.p === false) return undefined;
  const nodes: State[] = [];
  const count = path.length;
  for (let at = 0; at < count; at++) {
    const node = hash.nodes[path[at] ?? ''] ?? false;
    nodes[at] = node === false ? newNode() : node;
  }
  return nodes as unknown as State; // its step takes nodes
}

const newNode = (): number[] => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

function setState(hit: ScriptHit, state: State): void {
  const hash = hit.counter.hash;
  const path = hit.path;
  if (hash === undefined || path === undefined) {
    hit.counter.state = state;
    return;
  }
  const nodes = state as unknown as readonly State[]; // its step returns nodes
  const count = path.length;
  for (let at = 0; at < count; at++) {
    const field = path[at] ?? '';
    hash.nodes[field] = nodes[at] as State; // one for each
    hash.changed[field] = true;
  }
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
  } else {
    call('DEL', key);
    counter.before = undefined;
    stored[counter.key - 1] = false;
  }
  counter.state = undefined;
  counter.limit = undefined;
  if (hash !== undefined) {
    const count = hash.fields.length;
    for (let at = 0; at < count; at++) hash.nodes[hash.fields[at] ?? ''] = false;
    hash.changed = {};
  }
  const time = String(nowMs);
  call('SET', KEYS[hit.resetKey - 1] ?? '', time, 'PX', hit.resetMs);
  stored[hit.resetKey - 1] = time;
  return hit.limit.algorithm.step(hit.limit.numbers, undefined, nowMs, 0, false);
}

function isNew(hit: ScriptHit): boolean {
  const hash = hit.counter.hash;
  return hash === undefined ? hit.counter.state === undefined : hash.nodes.p === false;
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
  const count = hash.fields.length;
  for (let at = 0; at < count; at++) {
    const field = hash.fields[at] ?? '';
    const node = hash.nodes[field] ?? false;
    hash.savedNodes[field] = node === false ? false : [...unpack(node)];
    hash.savedChanged[field] = hash.changed[field] === true;
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
      hash.nodes = hash.savedNodes;
      hash.changed = hash.savedChanged;
      hash.savedNodes = {};
      hash.savedChanged = {};
    }
  }
  if (count > 0) saved = [];
}

function meterHit(hit: ScriptHit, hits: number): void {
  meter(hit.usage, hits);
}

function answer(hit: ScriptHit, accepted: boolean, charged: Charge, report: State): void {
  const counter = hit.counter;
  const outcome = (accepted ? ACCEPTED : 0) + (charged === false ? 0 : REFUSED_CHARGED);
  const length = report.length;
  const first = output.length;
  output[first] = counter.problem === 0 ? outcome : counter.problem;
  output[first + 1] = length;
  for (let at = 0; at < length; at++) output[first + 2 + at] = report[at] ?? 0;
}

/** As in envoyproxy/ratelimit, a counter that other limits spare is kept as if it were hit. */
function spared(hit: ScriptHit): void {
  if (hit.limit.algorithm.isForeign === true) keep(hit, hit.counter.state as State, hit.limit.numbers[1] ?? 0);
}

/** Drops forgotten ones among two children at random for each new one, so that they do not outnumber active ones. */
function sweep(key: string, added: number, ttlMs: number): void {
  const found = call<readonly string[]>('HRANDFIELD', key, 2 * added, 'WITHVALUES');
  const end = found.length;
  for (let at = 0; at < end; at += 2) {
    const field = found[at] ?? '';
    const node = unpackState(found[at + 1] ?? '', NODE_NUMBERS);
    if (field !== 'p' && (node === undefined || (node[0] ?? 0) < nowMs - ttlMs)) call('HDEL', key, field);
  }
}

function writeHash(key: string, hash: Nodes, ttlMs: number): void {
  const written: string[] = [];
  const count = hash.fields.length;
  for (let at = 0; at < count; at++) {
    const field = hash.fields[at] ?? '';
    if (hash.changed[field] === true) {
      const end = written.length;
      written[end] = field;
      written[end + 1] = packNumbers(hash.nodes[field] as State);
    }
  }
  const added = call<number>('HSET', key, ...unpack(written));
  if (added > 0) sweep(key, added, ttlMs);
  call('PEXPIRE', key, ttlMs);
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

/** Runs the requests from a place of the input to its end. Returns the numbers of the reply. */
export function decide(from: number): readonly number[] {
  const end = input.length;
  const requests: (readonly ScriptHit[])[] = [];
  const ways: number[] = [];
  cursor = from;
  while (cursor < end) {
    const count = input[cursor + COUNT] ?? 0;
    const hits: ScriptHit[] = [];
    ways[ways.length] = input[cursor + SPEND] ?? 0;
    cursor = cursor + REQUEST_NUMBERS;
    for (let at = 0; at < count; at++) hits[at] = readHit();
    requests[requests.length] = hits;
  }
  const counterCount = counters.length;
  for (let at = 0; at < counterCount; at++) {
    const counter = counters[at] as ScriptCounter; // in range
    if (counter.hash !== undefined) readNodes(counter, counter.hash);
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
  return output;
}
