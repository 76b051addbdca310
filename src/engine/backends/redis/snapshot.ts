import { MAX_COUNT, type State } from '../../algorithms/limit.ts';
import { algorithmFor, type Limit } from '../../holds/limits.ts';
import type { Operation } from '../backend.ts';
import type { Snapshot } from '../fork.ts';
import { type CounterKey, childKey } from '../key.ts';
import { unpackState } from '../packed-state.ts';

/** A counter to be copied. */
export type Copied = Pick<Operation, 'key' | 'limit' | 'shared' | 'share'>;

/**
 * Reads counters without changing them. KEYS: the counters. ARGV: per counter the number of fields to be read if it is
 * a shared limit, and the fields. Returns the server's seconds and microseconds, then per counter the type of its
 * value, its time to live, and the value: a string, or those of the fields.
 */
export const SNAPSHOT_SCRIPT = `
local time = redis.call('TIME')
local values = redis.call('MGET', unpack(KEYS))
local found, at = { time[1], time[2] }, 1
for i = 1, #KEYS do
  local last = at + tonumber(ARGV[at])
  local type = values[i] and 'string' or redis.call('TYPE', KEYS[i]).ok
  found[i + 2] = { type, redis.call('PTTL', KEYS[i]), values[i] or (type == 'hash' and redis.call('HMGET', KEYS[i], unpack(ARGV, at + 1, last)) or nil) }
  at = last + 1
end
return found
`;

/** The field of a shared limit's own numbers: see requests.lua. */
const PARENT_FIELD = 'p';

/** The fields of each counter that are read. */
export function listFields(counters: readonly Copied[]): ReadonlyMap<CounterKey, readonly string[]> {
  const fields = new Map<CounterKey, Set<string>>();
  for (const { key, share } of counters) {
    const own = fields.get(key) ?? new Set([PARENT_FIELD]);
    for (const child of share?.children ?? []) own.add(String(child));
    fields.set(key, own);
  }
  return new Map(Array.from(fields, ([key, own]) => [key, [...own]]));
}

/**
 * Decodes the script's reply.
 *
 * @param isOnClock  the counters are decided on a clock of this process: see counters.lua
 */
export function snapshotFrom(reply: unknown, counters: readonly Copied[], isOnClock: boolean): Snapshot {
  const fields = listFields(counters);
  if (!Array.isArray(reply) || reply.length !== fields.size + 2)
    throw new TypeError('expected the reply of the snapshot script');
  const [seconds, microseconds, ...found] = reply as readonly unknown[];
  const nowMs = Number(String(seconds)) * 1_000 + Math.floor(Number(String(microseconds)) / 1_000);
  const byKey = new Map(counters.map((counter) => [counter.key, counter]));
  const states = new Map<CounterKey, State>();
  const failures = new Map<CounterKey, string>();
  for (const [at, [key, names]] of [...fields].entries()) {
    const [type, leftMs, value] = found[at] as readonly [Buffer, number, (Buffer | (Buffer | null)[])?];
    const { limit, shared: window } = byKey.get(key) as Copied; // the fields are those of the counters
    if (Array.isArray(value)) {
      for (const [place, name] of names.entries()) {
        const packed = value[place];
        const state = packed && unpackState(packed);
        if (state) states.set(name === PARENT_FIELD ? key : childKey(key, name), state);
      }
    } else if (!window) {
      const state = value && (isOnClock ? unpackState(value) : readState(value, limit, nowMs, leftMs));
      if (state) states.set(key, state);
    } else if (value) {
      const count = readCount(value);
      if (count === undefined) failures.set(key, 'redis: ERR value is not an integer or out of range');
      else states.set(key, [window.windowStartMs, count]);
    } else if (String(type) !== 'none') {
      failures.set(key, 'redis: WRONGTYPE Operation against a key holding the wrong kind of value');
    }
  }
  return { nowMs, states, failures };
}

/** Twin of `read_state` in counters.lua. */
function readState(value: Buffer, limit: Limit, nowMs: number, leftMs: number): State | undefined {
  const { startBefore, step } = algorithmFor(limit);
  if (!startBefore) return unpackState(value);
  const count = readCount(value);
  if (count === undefined) return undefined;
  const endMs = nowMs + (leftMs > 0 ? leftMs : step(limit, undefined, nowMs, 1, true).ttlMs);
  return [startBefore(limit, endMs), count];
}

function readCount(value: Buffer): number | undefined {
  const text = value.toString('latin1');
  return /^-?\d+$/.test(text) ? Math.min(Math.max(Number(text), 0), MAX_COUNT) : undefined;
}
