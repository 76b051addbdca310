import { createHash } from 'node:crypto';

/** The longest key that memcached accepts. */
const MAX_KEY_BYTES = 250;

/**
 * A counter's key in a form that memcached accepts: without blanks and control characters, which end a key in its
 * protocol, and not too long. Other keys are replaced by their digest, so that no text of a caller is ever interpreted
 * as a command.
 */
export function safeKey(key: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are the ones to find
  const isSafe = key !== '' && !/[\x00-\x20\x7f]/.test(key) && Buffer.byteLength(key) <= MAX_KEY_BYTES;
  return isSafe ? key : `#${createHash('sha256').update(key).digest('base64url')}`;
}
