import { readFileSync } from 'node:fs';

/** For stores, files, and the ports of operators and sites, which have limits of their own. */
const RESERVED = 448;

/** The share of the rest that callers' connections may take at least, and that remains for those that are ending. */
const SMALLEST_SHARE = 1 / 4;
const LARGEST_SHARE = 7 / 8;

/** The most connections of callers: an accepted connection beyond the limit on open files would end all accepting. */
export function maxCallerConnections(): number {
  const openFiles = maxOpenFiles();
  return Math.floor(Math.max(openFiles * SMALLEST_SHARE, (openFiles - RESERVED) * LARGEST_SHARE));
}

/** The limit on this process's open files; Infinity if it is unknown. */
function maxOpenFiles(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY; // not Linux
  }
}
