import { MAX_COUNT, type State } from '../../algorithms/limit.ts';
import type { Snapshot } from '../fork.ts';
import { type CounterKey, childKey, type SharedWindow } from '../key.ts';
import { unpackState } from '../packed-state.ts';

/**
 * Reads counters without changing them. KEYS: the counters. Returns the server's seconds and microseconds, then per
 * counter the type of its value, and the value: a string, or the fields of a hash, which a shared limit has.
 */
export const SNAPSHOT_SCRIPT = `
local time = redis.call('TIME')
local values = redis.call('MGET', unpack(KEYS))
local found = { time[1], time[2] }
for i = 1, #KEYS do
  local type = values[i] and 'string' or redis.call('TYPE', KEYS[i]).ok
  found[i + 2] = { type, values[i] or (type == 'hash' and redis.call('HGETALL', KEYS[i]) or nil) }
end
return found
`;

/** The field of a shared limit's own numbers: see requests.lua. */
const PARENT_FIELD = 'p';

/** Decodes the script's reply. */
export function snapshotFrom(
  reply: unknown,
  keys: readonly CounterKey[],
  shared: ReadonlyMap<CounterKey, SharedWindow>,
): Snapshot {
  if (!Array.isArray(reply) || reply.length !== keys.length + 2)
    throw new TypeError('expected the reply of the snapshot script');
  const [seconds, microseconds, ...found] = reply as readonly unknown[];
  const nowMs = Number(String(seconds)) * 1_000 + Math.floor(Number(String(microseconds)) / 1_000);
  const states = new Map<CounterKey, State>();
  const failures = new Map<CounterKey, string>();
  for (const [at, key] of keys.entries()) {
    const [type, value] = found[at] as readonly [Buffer, (Buffer | Buffer[])?];
    const window = shared.get(key);
    if (Array.isArray(value)) {
      for (let field = 0; field < value.length; field += 2) {
        const name = String(value[field]);
        const state = unpackState(value[field + 1] as Buffer); // fields and values alternate
        if (state) states.set(name === PARENT_FIELD ? key : childKey(key, name), state);
      }
    } else if (!window) {
      const state = value && unpackState(value);
      if (state) states.set(key, state);
    } else if (value) {
      const text = value.toString('latin1');
      if (/^-?\d+$/.test(text)) states.set(key, [window.windowStartMs, Math.min(Math.max(Number(text), 0), MAX_COUNT)]);
      else failures.set(key, 'redis: ERR value is not an integer or out of range');
    } else if (String(type) !== 'none') {
      failures.set(key, 'redis: WRONGTYPE Operation against a key holding the wrong kind of value');
    }
  }
  return { nowMs, states, failures };
}
