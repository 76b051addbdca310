import { createHash } from 'node:crypto';
import { escapedValue } from './metric.ts';

/** Distinct names of one kind that callers may create; further ones are counted as `OTHER`. */
export const MAX_NAMES = 10_000;
/** Limits for the length and the levels of such a name; longer ones are cut. */
const MAX_NAME_LENGTH = 256;
const MAX_NAME_LEVELS = 32;
export const OTHER = '(other)';

/** At least what a level adds to a name that is written for Prometheus: `,key2=""`. */
const LEVEL_BYTES = 9;

/** Bounds the memory of names of one kind that callers create. */
export class NameBudget {
  readonly #maxBytes: number;
  #names = 0;
  #bytes = 0;

  /** @param maxBytes  the size of all names as written for Prometheus */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Charges a name to the budget. @returns false if it does not fit */
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
 * Cuts a name that contains a caller's text, given as its levels. A name that is too long or too deep ends with `~` and
 * a digest of the full name, so that different names stay different.
 */
export function cutName(levels: readonly string[]): readonly string[] {
  const length = levels.reduce((sum, level) => sum + level.length + 1, -1);
  if (length <= MAX_NAME_LENGTH && levels.length <= MAX_NAME_LEVELS) return levels;
  const ending = `~${digest(levels)}`;
  const kept: string[] = [];
  let left = MAX_NAME_LENGTH - ending.length;
  for (const level of levels.slice(0, MAX_NAME_LEVELS)) {
    kept.push(truncate(level, left));
    left -= level.length + 1;
    if (left <= 0) break;
  }
  return [...kept.slice(0, -1), `${kept.at(-1)}${ending}`];
}

const DIGEST_LENGTH = 12;

const digest = (levels: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(levels)).digest('base64url').slice(0, DIGEST_LENGTH);

/** Cuts a text without leaving half a surrogate pair. */
const truncate = (text: string, length: number): string => text.slice(0, length).replace(/[\ud800-\udbff]$/, '');
