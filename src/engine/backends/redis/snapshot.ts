import { MAX_COUNT, type State } from '../../algorithms/limit.ts';
import type { Snapshot } from '../fork.ts';
import type { CounterKey, SharedWindow } from '../key.ts';
import { unpackState } from '../packed-state.ts';

/**
 * Reads counters without changing them. KEYS: the counters. Returns the server's seconds and microseconds, then per
 * counter its value, or the type of another value under its key.
 */
export const SNAPSHOT_SCRIPT = `
local time = redis.call('TIME')
local values = redis.call('MGET', unpack(KEYS))
local found = { time[1], time[2] }
for i = 1, #KEYS do
  found[i + 2] = values[i] and { 'string', values[i] } or { redis.call('TYPE', KEYS[i]).ok }
end
return found
`;

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
    const [type, value] = found[at] as readonly [Buffer, Buffer?];
    const window = shared.get(key);
    if (!window) {
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
