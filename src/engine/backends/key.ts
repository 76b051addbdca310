import { createHash } from 'node:crypto';
import type { ShareClaim } from '../holds/claim.ts';
import type { Limit } from '../holds/limits.ts';

declare const counterKey: unique symbol;

/** Names one counter in a store. */
export type CounterKey = string & { readonly [counterKey]: true };

/** A part of a descriptor, as the caller sent it or as the rule shares it. */
export interface CounterEntry {
  readonly key: string;
  readonly value: string;
}

/** A counter: its name and, if other programs count on it as well, its format. */
export interface Counter {
  readonly key: CounterKey;
  /** The counter is shared with envoyproxy/ratelimit: a decimal count under a key that names its window. */
  readonly shared?: SharedWindow | undefined;
}

/** Facts that the count itself does not contain. */
export interface SharedWindow {
  /** Milliseconds since the epoch. */
  readonly windowStartMs: number;
  /** How long the count is kept after a hit. */
  readonly ttlMs: number;
}

/** Finds the counter of a limit for one descriptor. */
export type Counters = (limit: Limit, domain: string, entries: readonly CounterEntry[]) => Counter;

/** The counter of a child of a shared limit, in memory; Redis keeps all children under the limit's key. */
export const childKey = (key: CounterKey, child: number | string): CounterKey => `${key}#${child}` as CounterKey;

/** The counters of the children that an operation's hits belong to, from the top. */
export const childKeys = ({ key, share }: Pick<Counter, 'key'> & { readonly share?: ShareClaim | undefined }) =>
  share ? share.children.map((child) => childKey(key, child)) : [];

/** Creates the counter key of a limit for one descriptor, from the algorithm, the window and the entries. */
export type CounterKeys = (limit: Limit, domain: string, entries: readonly CounterEntry[]) => CounterKey;

/** Counters that only this service uses. */
export const ownCounters =
  (keys: CounterKeys): Counters =>
  (limit, domain, entries) => ({ key: keys(limit, domain, entries) });

/** Maximum length of a key's part for domain and entries; longer ones become their digest, to bound memory. */
const MAX_NAME_LENGTH = 512;

const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');

/** Longer domains have their digest as hash tag. */
const MAX_TAG_LENGTH = 128;

/**
 * Counter keys that cannot collide: every text is preceded by its length, so that (`a_b`, `c`) and (`a`, `b_c`) differ.
 * The window's start is part of the state, not of the key; another window or algorithm has another counter, since
 * `limit.counter` names both.
 *
 * @param prefix   precedes every key, for a Redis that others use too
 * @param hashTag  `domain`: all keys of a domain are in one slot of a Redis Cluster
 * @example `fixed_window.2|60000|8:checkout|4:user|5:alice`, with a hash tag `{checkout}fixed_window.2|60000|8:checkout|…`
 */
export function createCounterKeys(
  prefix: string,
  { hashTag = 'none' }: { readonly hashTag?: 'none' | 'domain' } = {},
): CounterKeys {
  const buildStart = (limit: Limit, domain: string): string =>
    `${prefix}${hashTag === 'domain' ? `{${hashTagFor(domain)}}` : ''}${limit.counter}`;
  const shortened = (text: string, limit: Limit, domain: string): string => {
    const start = buildStart(limit, domain);
    // no slice, which would retain the long text
    return text.length > start.length + MAX_NAME_LENGTH ? `${start}|#${digest(text)}` : text;
  };
  const known = new WeakMap<Limit, LastKey>(); // for limits of rules
  return (limit, domain, entries) => {
    let last = known.get(limit);
    if (last?.domain !== domain) {
      last = { domain, head: `${buildStart(limit, domain)}|${domain.length}:${domain}`, entries: [], key: undefined };
      known.set(limit, last);
    }
    if (last.key !== undefined && areSame(last.entries, entries)) return last.key;
    let text = last.head;
    for (const { key, value } of limit.above === undefined ? entries : entries.slice(0, limit.above))
      text += `|${key.length}:${key}|${value.length}:${value}`;
    if (text.length > MAX_NAME_LENGTH) return shortened(text, limit, domain) as CounterKey;
    const key = text as CounterKey; // here, and in shared-counters.ts, a text becomes a key
    if (text.length <= MAX_REMEMBERED_LENGTH) {
      last.entries = entries;
      last.key = key;
    }
    return key;
  };
}

/** The last key of a limit. A counter that is used repeatedly keeps its text, and with it the text's hash. */
interface LastKey {
  readonly domain: string;
  /** The beginning of the keys of the limit and the domain. */
  readonly head: string;
  entries: readonly CounterEntry[];
  key: CounterKey | undefined;
}

/** Longer keys are not cached, so that callers can only make a limit retain little memory. */
const MAX_REMEMBERED_LENGTH = 256;

function areSame(some: readonly CounterEntry[], others: readonly CounterEntry[]): boolean {
  if (some.length !== others.length) return false;
  for (let at = 0; at < some.length; at++) {
    const one = some[at] as CounterEntry; // same length
    const other = others[at] as CounterEntry;
    if (one.value !== other.value || one.key !== other.key) return false;
  }
  return true;
}

/** Without braces, which would end the tag early, and never empty. */
const hashTagFor = (domain: string): string =>
  domain.length > MAX_TAG_LENGTH ? digest(domain) : domain.replace(/[{}]/g, '_') || '_';

/** Whether V8 needs two bytes for each character of the text. */
export const isWide = (text: string): boolean => /[\u0100-\uffff]/.test(text);

/**
 * The memory cost of a key in a Map: the string (a header of 16 bytes, then its characters, rounded up to 8) and its
 * entry. An entry takes 28 bytes of a full Map; a Map whose keys are added and removed is a quarter to half full.
 */
export const keyBytes = (length: number, wide: boolean): number =>
  MAP_ENTRY_BYTES + 16 + 8 * Math.ceil((wide ? 2 * length : length) / 8);
const MAP_ENTRY_BYTES = 72;

/** A flat copy of a text: a concatenated one is a tree of its parts, and a substring retains the longer text. */
export const inOnePiece = <T extends string>(text: T): T =>
  text.length < LEAST_PARTED_LENGTH ? text : ([text.slice(0, 1), text.slice(1)].join('') as T); // equal to it

/** V8 does not use trees or slices for shorter texts: `ConsString::kMinLength` and `SlicedString::kMinLength`. */
const LEAST_PARTED_LENGTH = 13;

/**
 * Maximum length of a key that a store in memory keeps unchanged; longer ones, which only prefixes and keys of
 * envoyproxy/ratelimit reach, are replaced by their digest.
 */
const MAX_KEPT_LENGTH = 1_024;

/** The replacement of a key in memory: at most 1,024 characters. */
export const keptKey = (key: CounterKey): CounterKey =>
  key.length <= MAX_KEPT_LENGTH ? key : (`#${digest(key)}` as CounterKey); // no key begins with #
