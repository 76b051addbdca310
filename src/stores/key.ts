import type { Limit } from '../algorithms/limit.ts';

declare const counterKey: unique symbol;

/** Names one counter in a store. Only `createCounterKeys` makes them. */
export type CounterKey = string & { readonly [counterKey]: true };

/** A part of a descriptor, as the caller sent it or as the rule shares it. */
interface Entry {
  readonly key: string;
  readonly value: string;
}

/** Makes the counter key of a limit for one descriptor: which algorithm, which window, whose counter. */
export type CounterKeys = (limit: Limit, domain: string, entries: readonly Entry[]) => CounterKey;

/**
 * Counter keys that cannot collide: every text is preceded by its length, so that (`a_b`, `c`) and (`a`, `b_c`) differ.
 * The window's start is state, not key; another window or algorithm is another counter.
 *
 * @param prefix  put before every key, for a Redis that others use too
 * @example `fixed_window|60000|8:checkout|4:user|5:alice`
 */
export function createCounterKeys(prefix: string): CounterKeys {
  return (limit, domain, entries) => {
    let key = `${prefix}${limit.algorithm}|${limit.windowMs}|${domain.length}:${domain}`;
    for (const entry of entries) key += `|${entry.key.length}:${entry.key}|${entry.value.length}:${entry.value}`;
    return key as CounterKey; // the one place where a text becomes a key
  };
}
