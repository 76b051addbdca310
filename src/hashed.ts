import { createHash } from 'node:crypto';

/** `#` and the beginning of the SHA-256 of the value. */
export const hashed = (value: string): string => `#${createHash('sha256').update(value).digest('hex').slice(0, 12)}`;
