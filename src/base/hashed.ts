import { createHmac } from 'node:crypto';

/** Turns a value that a caller sent into a hash. */
export type Hash = (value: string) => string;

const MARK = '#';
/** Characters of a hash, for 96 bits. */
const HASH_CHARACTERS = 16;
const HASHED = /^#[\w-]{16}$/;

/**
 * Hashes a value for pages, statistics, logs and recordings, to `#` and the beginning of its HMAC-SHA-256. Equal values
 * have equal hashes under the same key; without the key, a value cannot be found by trying all.
 */
export const hashValue = (value: string, key: string): string =>
  MARK + createHmac('sha256', key).update(value).digest('base64url').slice(0, HASH_CHARACTERS);

/** Whether a value looks like a hash. */
export const isHash = (value: string): boolean => HASHED.test(value);
