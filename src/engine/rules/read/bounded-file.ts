import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from 'node:fs';

/** The path is not a regular file: reading a named pipe, for example, may never end. */
export class NotAFile extends Error {
  override readonly name = 'NotAFile';
}

/** The file is larger than allowed. */
export class TooManyBytes extends Error {
  override readonly name = 'TooManyBytes';
}

/** Opening must not wait for a writer, if a named pipe took the file's place after `stat`. */
const AT_ONCE = constants.O_RDONLY | constants.O_NONBLOCK;
const CHUNK_BYTES = 65_536;

/**
 * Reads a file; follows links.
 *
 * @param isAnyKindRead  also reads pipes and devices, such as a shell passes to a command
 * @throws Error         of the file system; NotAFile, TooManyBytes
 */
export function readBounded(path: string, maxBytes: number, isAnyKindRead = false): Buffer {
  const found = statSync(path, { throwIfNoEntry: false }); // opening reports a missing file
  if (found && !isAnyKindRead) refuseOthers(found);
  const descriptor = openSync(path, isAnyKindRead ? constants.O_RDONLY : AT_ONCE);
  try {
    const stats = fstatSync(descriptor);
    if (!isAnyKindRead) refuseOthers(stats);
    if (stats.size > maxBytes) throw tooMany(maxBytes, String(stats.size));
    return readAll(descriptor, maxBytes);
  } finally {
    closeSync(descriptor);
  }
}

/** By the first octet of a byte order mark, which begins no UTF-8. */
const encodings: Readonly<Record<number, string>> = { 255: 'utf-16le', 254: 'utf-16be' };

/** Decodes the content of a file: UTF-8, or UTF-16 with a byte order mark, which is dropped. @throws Error if it is not */
export const decodeText = (content: Buffer): string =>
  new TextDecoder(encodings[content[0] ?? 0] ?? 'utf-8', { fatal: true }).decode(content);

/** A pipe, or a file that grows, may have more bytes than its size says. */
function readAll(descriptor: number, maxBytes: number): Buffer {
  const chunks: Buffer[] = [];
  for (let bytes = 0; bytes <= maxBytes; ) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    const read = readSync(descriptor, chunk);
    if (read === 0) return Buffer.concat(chunks);
    chunks.push(chunk.subarray(0, read));
    bytes += read;
  }
  throw tooMany(maxBytes, 'more');
}

const tooMany = (maxBytes: number, got: string): TooManyBytes =>
  new TooManyBytes(`a file may have at most ${maxBytes} bytes, got ${got}`);

function refuseOthers(stats: Stats): void {
  if (!stats.isFile()) throw new NotAFile(`it is ${describeKind(stats)}, expected a regular file`);
}

function describeKind(stats: Stats): string {
  if (stats.isFIFO()) return 'a named pipe';
  if (stats.isSocket()) return 'a socket';
  if (stats.isDirectory()) return 'a directory';
  return 'a device';
}
