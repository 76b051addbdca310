import { type Charge, MAX_COUNT, type State, type Step } from '../../../engine/algorithms/limit.ts';
import { CHECKED_NUMBERS } from '../../../engine/backends/packed-state.ts';
import { MAX_USAGE_ENTRIES } from '../../../engine/backends/usage.ts';
import { argumentAt } from './format.ts';
import { ARGV, KEYS, redis, string, struct, table, tonumber, unpack } from './lua.ts';

/**
 * What every script does with counters: a counter is a string, its state as little-endian doubles; that of a window on
 * the server's clock is its count in decimal, whose time to live is the window.
 */

type List = readonly number[];

/** What the script's table has for each algorithm: see script.ts. */
export interface ScriptAlgorithm {
  step(this: void, limit: List, state: State | undefined, nowMs: number, hits: number, charge: Charge): Step;
  refund(this: void, limit: List, state: State | undefined, nowMs: number, hits: number, chargedAtMs: number): Step;
  startBefore(this: void, limit: readonly number[], endMs: number): number;
  /** A counter is a hash of nodes: see nodes.ts. */
  readonly hasNodes?: boolean;
  /** A counter is the count of a window. */
  readonly countsWindow: boolean;
  /** The counter is shared with envoyproxy/ratelimit, whose windows have names of their own. */
  readonly isForeign?: boolean;
  /** The numbers of each state; 0 if they vary. */
  readonly stateLength: number;
  readonly reserves: boolean;
}

/** A limit of the call. */
export interface ScriptLimit {
  readonly algorithm: ScriptAlgorithm;
  readonly numbers: readonly number[];
  /** The start of the present window, once it is known. */
  startMs?: number;
}

/** A state: its first numbers may not count, and others come before it, see `Opened`. */
interface PackedList extends ReadonlyArray<number> {
  readonly dropped?: number;
  readonly before?: readonly PackedList[];
}

export const call: typeof redis.call = redis.call;
export const pack: typeof struct.pack = struct.pack;

/** Numbers at a time: Lua limits the arguments and results of a call. */
const CHUNK = 128;

const formats: string[] = [];

export function formatOf(count: number): string {
  let format = formats[count];
  if (format === undefined) {
    format = `<${string.rep('d', count)}`;
    formats[count] = format;
  }
  return format;
}

export function packNumbers(numbers: PackedList): string {
  const from = numbers.dropped ?? 0;
  const to = numbers.length;
  const lists = numbers.before;
  let before = '';
  if (lists !== undefined) {
    const count = lists.length;
    for (let at = 0; at < count; at++) before = before + packNumbers(lists[at] as PackedList);
  }
  if (to === from + 2) return before + pack('<dd', numbers[to - 2], numbers[to - 1]);
  if (to - from <= CHUNK) return before + pack(formatOf(to - from), ...unpack(numbers, from + 1, to));
  const parts: string[] = [before];
  for (let first = from; first < to; first += CHUNK) {
    const last = Math.min(first + CHUNK, to);
    parts[parts.length] = pack(formatOf(last - first), ...unpack(numbers, first + 1, last));
  }
  return table.concat(parts);
}

export function unpackNumbers(packed: string): number[] {
  const count = Math.floor(packed.length / 8);
  if (count === 2) {
    const [first, second] = struct.unpack<[number, number]>('<dd', packed);
    return [first, second];
  }
  if (count <= CHUNK) {
    const numbers: (number | undefined)[] = [...struct.unpack<number[]>(formatOf(count), packed)];
    numbers[count] = undefined; // the place after the last number, which `struct.unpack` also returns
    return numbers as number[];
  }
  const numbers: number[] = [];
  for (let first = 0; first < count; first += CHUNK) {
    const size = Math.min(CHUNK, count - first);
    const part = [...struct.unpack<number[]>(formatOf(size), packed, first * 8 + 1)];
    for (let at = 0; at < size; at++) numbers[first + at] = part[at] ?? 0;
  }
  return numbers;
}

export function serverMs(): number {
  const time = call<readonly [string, string]>('TIME');
  return (tonumber(time[0]) ?? 0) * 1000 + Math.floor((tonumber(time[1]) ?? 0) / 1000);
}

/**
 * The state in a counter; undefined if there is none, or if another program wrote it: a number is no integer below 2^53.
 * Twin of `unpackState` in packed-state.ts.
 *
 * @param length  the numbers of the state; 0 if they vary
 */
export function unpackState(packed: string | false, length: number): State | undefined {
  if (packed === false || packed === '' || (length > 0 && packed.length !== 8 * length)) return undefined;
  if (packed.length % 8 !== 0) return undefined; // never negative
  const state = unpackNumbers(packed);
  const checked = Math.min(state.length, CHECKED_NUMBERS);
  for (let at = 0; at < checked; at++) {
    const number = state[at] ?? 0;
    if (number % 1 !== 0 || number > MAX_COUNT || number < -MAX_COUNT) return undefined;
  }
  return state;
}

/**
 * Adds hits to the usage of a counter in this hour. New counters beyond the maximum are summed up. Errors, of values that
 * another program wrote and of sums beyond 64 bits, leave the usage as it is: they must not change an answer.
 */
export function addUsage(usageKey: string, nowMs: number, key: string, hits: number): void {
  const hour = string.format('%d|', Math.floor(nowMs / HOUR_MS));
  const sum = redis.pcall<unknown>('HINCRBY', usageKey, hour + key, hits);
  if (sum === hits && call<number>('HLEN', usageKey) > MAX_USAGE_ENTRIES) {
    call('HDEL', usageKey, hour + key);
    redis.pcall('HINCRBY', usageKey, hour, hits);
  }
}

const HOUR_MS = 3_600_000;
const MAX_LOG_BYTES = 33_554_432;

/**
 * Appends hits to a log of usage: little-endian doubles (the hour, the number of counters, and for each its hits and
 * the length of its name), then their names. That costs Redis a fraction of adding them one by one, which a full log
 * requires.
 *
 * @param places  of what it is booked under: see format.ts
 * @param used    the hits, by these places
 */
export function logUsage(nowMs: number, places: readonly number[], used: Readonly<Record<number, number>>): void {
  const usageKey = KEYS[KEYS.length - 2] ?? '';
  const numbers: number[] = [Math.floor(nowMs / HOUR_MS), 0];
  const names: string[] = [];
  const count = places.length;
  for (let at = 0; at < count; at++) {
    const place = places[at] ?? 0;
    const key = (place > 0 ? KEYS[place - 1] : ARGV[argumentAt.usage - place]) ?? '';
    const hits = used[place] ?? 0;
    if (hits !== 0) {
      names[names.length] = key;
      numbers[numbers.length] = hits;
      numbers[numbers.length] = key.length;
    }
  }
  const logged = names.length;
  if (logged === 0) return;
  numbers[1] = logged;
  const entry = packNumbers(numbers) + table.concat(names);
  const size = redis.pcall<unknown>('HINCRBY', usageKey, '#log', entry.length);
  const isFull = typeof size !== 'number' || size > MAX_LOG_BYTES;
  if (!isFull && typeof redis.pcall<unknown>('RPUSH', KEYS[KEYS.length - 1] ?? '', entry) === 'number') return;
  for (let at = 0; at < logged; at++) addUsage(usageKey, nowMs, names[at] ?? '', numbers[2 + 2 * at] ?? 0);
}

/** A counter that is found this long after its window began belongs to it. */
const SURE_MS = 100;

/** The time to live of a window that begins or goes on now. */
function windowLeftMs(limit: ScriptLimit, nowMs: number): number {
  const next: Step = limit.algorithm.step(limit.numbers, undefined, nowMs, 1, true);
  return next.ttlMs;
}

/**
 * The state of a window from its count. One that has lost its expiry gets that of the present window; with `isSpent`
 * only when its limit is reached, since reading it costs a sixth of a hit.
 */
function readCount(key: string, text: string, limit: ScriptLimit, nowMs: number, isSpent: boolean): State | undefined {
  const isCount = text.length <= 20 && string.match(text, '^%-?%d+$') !== undefined;
  if (!isCount) return undefined; // another program's value
  const count = Math.min(Math.max(tonumber(text) ?? 0, 0), MAX_COUNT);
  const numbers = limit.numbers;
  if (isSpent && count < (numbers[0] ?? 0)) {
    let startMs = limit.startMs;
    if (startMs === undefined) {
      startMs = limit.algorithm.startBefore(numbers, nowMs + windowLeftMs(limit, nowMs));
      limit.startMs = startMs;
    }
    if (nowMs - startMs >= SURE_MS) return [startMs, count];
  }
  let leftMs = call<number>('PTTL', key);
  if (leftMs <= 0) {
    const endMs = nowMs + windowLeftMs(limit, nowMs);
    if (leftMs === -1) call('PEXPIREAT', key, String(endMs));
    else if (serverMs() < endMs) return undefined; // it has expired before nowMs: Redis 6 and 7.0 find it until the script ends
    leftMs = endMs - nowMs;
  }
  return [limit.algorithm.startBefore(numbers, nowMs + leftMs), count];
}

/**
 * The state in a counter under a limit; undefined if there is none.
 *
 * @param isSpent  hits will be added, and the state stored
 */
export function readState(
  key: string,
  stored: string | false,
  limit: ScriptLimit,
  nowMs: number,
  isSpent: boolean,
): State | undefined {
  if (stored !== false && limit.algorithm.countsWindow) return readCount(key, stored, limit, nowMs, isSpent);
  return unpackState(stored, limit.algorithm.stateLength);
}

/**
 * Stores the count of a window. A counter without hits is kept until its window ends: an instance that has seen it may
 * be about to add some by INCRBY, which would create it without an expiry.
 */
function writeCount(
  key: string,
  before: State | undefined,
  state: State,
  nowMs: number,
  ttlMs: number,
): string | false {
  const text = String(state[1] ?? 0);
  if (before !== undefined && (before[0] === state[0] || state[1] === 0)) call('SET', key, text, 'KEEPTTL');
  else if (ttlMs > 0) call('SET', key, text, 'PXAT', String(nowMs + ttlMs));
  else return false;
  return text;
}

/** Stores a state; deletes the counter if it is equivalent to a new one. Returns what is stored. */
export function writeState(
  key: string,
  stored: string | false,
  before: State | undefined,
  state: State,
  packed: string,
  limit: ScriptLimit,
  nowMs: number,
  ttlMs: number,
): string | false {
  if (limit.algorithm.countsWindow) return writeCount(key, before, state, nowMs, ttlMs);
  if (ttlMs > 0) {
    call('SET', key, packed, 'PX', ttlMs);
    return packed;
  }
  if (stored !== false) call('DEL', key);
  return false;
}
