import type { CounterKey } from '../key.ts';

/** Finds a counter's slot by its key. */
interface KeyIndex {
  slotOf(key: CounterKey): number | undefined;
  add(key: CounterKey, slot: number): void;
  delete(key: CounterKey): void;
}

/**
 * The most keys in one Map, on average. A Map that grows or shrinks moves all its keys: for this number, that takes
 * tens of microseconds.
 */
const SHARD_KEYS = 1_024;

/**
 * Many small Maps instead of a large one, which would block for tens of milliseconds whenever it grows. A client that
 * chooses keys of a single shard only gets the behaviour of a large Map: Maps hash with a secret.
 *
 * @param maxKeys  the most keys to expect
 */
export function createKeyIndex(maxKeys: number): KeyIndex {
  const shards = Array.from(
    { length: 2 ** Math.ceil(Math.log2(Math.max(maxKeys / SHARD_KEYS, 1))) },
    () => new Map<CounterKey, number>(),
  );
  const shardOf = (key: CounterKey) => shards[hash(key) & (shards.length - 1)];
  return {
    slotOf: (key) => shardOf(key)?.get(key),
    add(key, slot) {
      shardOf(key)?.set(key, slot);
    },
    delete(key) {
      shardOf(key)?.delete(key);
    },
  };
}

/**
 * A 32-bit hash that all characters affect, including its low bits: without mixing, those of consecutive keys would be
 * too regular.
 */
function hash(key: CounterKey): number {
  let mixed = 0;
  for (let at = 0; at < key.length; at++) mixed = (Math.imul(mixed, 31) + key.charCodeAt(at)) | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d);
  return mixed ^ (mixed >>> 12);
}
