import { createHash } from 'node:crypto';
import { escapedValue } from './exposition.ts';

/** Names of one kind that callers make and that are told apart: what comes after is counted as `OTHER`. */
export const MAX_NAMES = 10_000;
/** Characters of such a name, and its levels; a longer one is cut. */
export const MAX_NAME_LENGTH = 256;
export const MAX_NAME_LEVELS = 32;
export const OTHER = '(other)';

/** What the reference's page for Prometheus writes around each level: `,key12=""`. */
const LEVEL_BYTES = 9;

/** Room for the names of one kind that callers make. */
export class NameRoom {
  readonly #maxBytes: number;
  #names = 0;
  #bytes = 0;

  /** @param maxBytes  of all names together, as a page for Prometheus writes them */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Takes room for a name. False: there is none left for it. */
  take(levels: readonly string[]): boolean {
    let bytes = this.#bytes;
    for (const level of levels) bytes += Buffer.byteLength(escapedValue(level)) + LEVEL_BYTES;
    if (this.#names >= MAX_NAMES || bytes > this.#maxBytes) return false;
    this.#names++;
    this.#bytes = bytes;
    return true;
  }
}

/**
 * A name that a caller has a part in, a text a level, as it is shown. One that is too long or too deep is cut, and ends with `~` and a digest of the
 * whole, so that two of them stay two.
 */
export function cutName(levels: readonly string[]): readonly string[] {
  const length = levels.reduce((sum, level) => sum + level.length + 1, -1);
  if (length <= MAX_NAME_LENGTH && levels.length <= MAX_NAME_LEVELS) return levels;
  const ending = `~${digest(levels)}`;
  const kept: string[] = [];
  let left = MAX_NAME_LENGTH - ending.length;
  for (const level of levels.slice(0, MAX_NAME_LEVELS)) {
    kept.push(beginningOf(level, left));
    left -= level.length + 1;
    if (left <= 0) break;
  }
  return [...kept.slice(0, -1), `${kept.at(-1)}${ending}`];
}

const DIGEST_LENGTH = 12;

const digest = (levels: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(levels)).digest('base64url').slice(0, DIGEST_LENGTH);

/** So many characters at most, without half a surrogate pair at the end. */
const beginningOf = (text: string, length: number): string => text.slice(0, length).replace(/[\ud800-\udbff]$/, '');
