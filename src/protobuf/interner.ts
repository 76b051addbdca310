/** Decodes octets that the caller checked to be ASCII; equal octets must have equal hashes. */
export type Interner = (bytes: Buffer, from: number, to: number, hash: number) => string;

const SLOTS = 4_096;
/** Maximum length of cached strings. */
const MAX_LENGTH = 64;

/**
 * Returns a cached string for octets seen twice before, unless another string has taken the slot. The same few strings
 * recur in every message, and a cached string needs no allocation and has its hash computed.
 */
export function createInterner(): Interner {
  const cache: string[] = new Array(SLOTS).fill('');
  const lengths = new Uint8Array(SLOTS);
  /** Octets of each cached string, since reading characters of a string is slower. */
  const octets = new Uint8Array(SLOTS * MAX_LENGTH);
  /** Hash of each slot's last uncached string, which is cached when it recurs. */
  const seenHashes = new Int32Array(SLOTS);
  const isCached = (slot: number, bytes: Buffer, from: number, length: number): boolean => {
    if (lengths[slot] !== length) return false;
    const start = slot * MAX_LENGTH;
    for (let at = 0; at < length; at++) if (octets[start + at] !== bytes[from + at]) return false;
    return true;
  };
  return (bytes, from, to, hash) => {
    const length = to - from;
    if (length > MAX_LENGTH) return bytes.toString('latin1', from, to);
    const slot = (hash ^ (hash >>> 15)) & (SLOTS - 1);
    if (isCached(slot, bytes, from, length)) return cache[slot] as string; // every slot has one
    const text = bytes.toString('latin1', from, to);
    if (seenHashes[slot] !== hash) {
      seenHashes[slot] = hash;
      return text;
    }
    cache[slot] = text;
    lengths[slot] = length;
    for (let at = 0; at < length; at++) octets[slot * MAX_LENGTH + at] = bytes[from + at] as number; // in range
    return text;
  };
}
