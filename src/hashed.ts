import { createHash } from 'node:crypto';

/** `#` and the beginning of the SHA-256 of the value. */
export const hashed = (value: string): string => `#${createHash('sha256').update(value).digest('hex').slice(0, 12)}`;

/** Whether a value is a hash as `hashed` returns it. */
export const isHash = (value: string): boolean => /^#[0-9a-f]{12}$/.test(value);
