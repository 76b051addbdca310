/** Reads a text of ASCII; the caller has looked. */
export type Interner = (bytes: Buffer, from: number, to: number, hash: number) => string;

const SLOTS = 4_096;
/** Longer texts are made anew each time. */
const MAX_LENGTH = 64;

/**
 * Gives out the same string for the same octets as long as no other text takes its slot: domains, keys and many values come again and again, and
 * a string that is there already costs no memory and knows its hash.
 */
export function createInterner(): Interner {
  const known: string[] = new Array(SLOTS).fill('');
  return (bytes, from, to, hash) => {
    if (to - from > MAX_LENGTH) return bytes.toString('latin1', from, to);
    const slot = (hash ^ (hash >>> 15)) & (SLOTS - 1);
    const before = known[slot] as string; // every slot has one
    if (isSame(before, bytes, from, to)) return before;
    const text = bytes.toString('latin1', from, to);
    known[slot] = text;
    return text;
  };
}

function isSame(text: string, bytes: Buffer, from: number, to: number): boolean {
  if (text.length !== to - from) return false;
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) !== bytes[from + at]) return false;
  return true;
}
