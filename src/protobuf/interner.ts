/** Decodes octets that the caller has checked to be ASCII; `hash` must be the same for the same octets. */
export type Interner = (bytes: Buffer, from: number, to: number, hash: number) => string;

const SLOTS = 4_096;
/** Longer strings are not cached. */
const MAX_LENGTH = 64;

/**
 * Returns a cached string for octets seen before, unless another string has taken the slot. The same few strings recur
 * in every message, and a cached string needs no allocation and has its hash computed.
 */
export function createInterner(): Interner {
  const cache: string[] = new Array(SLOTS).fill('');
  return (bytes, from, to, hash) => {
    if (to - from > MAX_LENGTH) return bytes.toString('latin1', from, to);
    const slot = (hash ^ (hash >>> 15)) & (SLOTS - 1);
    const cached = cache[slot] as string; // every slot has one
    if (isSame(cached, bytes, from, to)) return cached;
    const text = bytes.toString('latin1', from, to);
    cache[slot] = text;
    return text;
  };
}

function isSame(text: string, bytes: Buffer, from: number, to: number): boolean {
  if (text.length !== to - from) return false;
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) !== bytes[from + at]) return false;
  return true;
}
