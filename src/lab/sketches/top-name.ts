import { randomInt } from 'node:crypto';
import { inOnePiece } from '../../engine/backends/key.ts';
import type { Entry } from '../../engine/rules/match/match.ts';

/** The name that a table counts, a descriptor alone or together with its rule. */
export interface TopName {
  /** Rule; empty for the rule of the table. */
  readonly rule: string;
  readonly entries: readonly Entry[];
  /** The hash of the entries. */
  readonly hash: number;
  /** Whether the name is a single text, the key of its only entry. */
  readonly isText: boolean;
}

/** Maximum length of names; longer ones are cut. */
const MAX_NAME_LENGTH = 4_096;

/** Separates the rule from the descriptor in an encoded name. */
export const SEPARATOR = '\0';

/** Seed that differs between processes, so that a caller cannot choose descriptors with equal hashes. */
const SEED = randomInt(2 ** 31);

/** The name of a descriptor in its rule's table. Copies nothing unless the descriptor is too long. */
export function createTopName(entries: readonly Entry[]): TopName {
  let length = 0;
  for (const { key, value } of entries) length += key.length + value.length;
  if (length <= MAX_NAME_LENGTH) return { rule: '', entries, hash: hashEntries(entries), isText: false };
  return createTextName(`${encodedEntries(entries).slice(0, MAX_NAME_LENGTH)}…`);
}

export function createTextName(text: string): TopName {
  const entries = [{ key: text, value: '' }];
  return { rule: '', entries, hash: hashEntries(entries), isText: true };
}

/** A copy of the name with its own texts, as those of a request may keep larger strings alive. */
export const keptName = ({ rule, entries, hash, isText }: TopName): TopName => ({
  rule: inOnePiece(rule),
  entries: entries.map(({ key, value }) => ({ key: inOnePiece(key), value: inOnePiece(value) })),
  hash,
  isText,
});

/** Encodes the name as one text, unambiguously. */
export const encodedName = ({ rule, entries, isText }: TopName): string =>
  `${rule === '' ? '' : `${rule}${SEPARATOR}`}${isText ? entries[0]?.key : encodedEntries(entries)}`;

export function isSameName(one: TopName, other: TopName): boolean {
  if (one.hash !== other.hash || one.rule !== other.rule || one.entries.length !== other.entries.length) return false;
  for (let at = 0; at < one.entries.length; at++) {
    const first = one.entries[at] as Entry; // both have the same length
    const second = other.entries[at] as Entry;
    if (first.key !== second.key || first.value !== second.value) return false;
  }
  return true;
}

const ENTRY_BYTES = 96;

/** Approximate memory of a name with its own texts. */
export function nameBytes({ rule, entries }: TopName): number {
  let bytes = 2 * rule.length;
  for (const { key, value } of entries) bytes += ENTRY_BYTES + 2 * (key.length + value.length);
  return bytes;
}

export function encodedEntries(entries: readonly Entry[]): string {
  let text = '';
  for (const { key, value } of entries) text += `|${key.length}:${key}|${value.length}:${value}`;
  return text;
}

function hashEntries(entries: readonly Entry[]): number {
  let hash = SEED;
  for (const { key, value } of entries) hash = mixed(mixed(hash, key), value);
  return hash;
}

/** MurmurHash3's step for each UTF-16 unit, then its length. @see https://doi.org/10.5281/zenodo.1241418 */
export function mixed(start: number, text: string): number {
  let hash = start;
  for (let at = 0; at < text.length; at++) {
    const unit = Math.imul(text.charCodeAt(at), 0xcc9e2d51);
    hash ^= Math.imul((unit << 15) | (unit >>> 17), 0x1b873593);
    hash = Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64;
  }
  return (hash ^ text.length) | 0;
}

const NONE = -1;
const MIN_BUCKETS = 8;

/** Maps names to numbers with a chained hash table, which avoids joining the parts of a name into one text. */
export class NameIndex {
  readonly #names: TopName[] = [];
  /** For each number, the next in its chain. */
  readonly #next: number[] = [];
  #buckets = new Int32Array(MIN_BUCKETS).fill(NONE);

  get size(): number {
    return this.#names.length;
  }

  /** @returns -1 if absent */
  find(name: TopName): number {
    let number = this.#buckets[this.#findBucket(name)] ?? NONE;
    while (number !== NONE && !isSameName(this.#nameAt(number), name)) number = this.#next[number] ?? NONE;
    return number;
  }

  /** Assigns the next number to the name. */
  add(name: TopName): number {
    const number = this.#names.length;
    if (number === this.#buckets.length) this.#grow();
    this.#names.push(name);
    this.#next.push(NONE);
    this.#link(number);
    return number;
  }

  /** Assigns the number to another name. @returns the previous name */
  replace(number: number, name: TopName): TopName {
    const old = this.#nameAt(number);
    this.#unlink(number, old);
    this.#names[number] = name;
    this.#link(number);
    return old;
  }

  /** Names in the order of their numbers. */
  names(): readonly TopName[] {
    return this.#names;
  }

  #nameAt(number: number): TopName {
    return this.#names[number] as TopName; // each number has a name
  }

  #findBucket({ hash }: TopName): number {
    return (hash ^ (hash >>> 15)) & (this.#buckets.length - 1);
  }

  #link(number: number): void {
    const bucket = this.#findBucket(this.#nameAt(number));
    this.#next[number] = this.#buckets[bucket] ?? NONE;
    this.#buckets[bucket] = number;
  }

  #unlink(number: number, name: TopName): void {
    const bucket = this.#findBucket(name);
    const after = this.#next[number] ?? NONE;
    let at = this.#buckets[bucket] ?? NONE;
    if (at === number) {
      this.#buckets[bucket] = after;
      return;
    }
    while (this.#next[at] !== number) at = this.#next[at] as number; // it is in this chain
    this.#next[at] = after;
  }

  #grow(): void {
    this.#buckets = new Int32Array(2 * this.#buckets.length).fill(NONE);
    for (let number = 0; number < this.#names.length; number++) this.#link(number);
  }
}
