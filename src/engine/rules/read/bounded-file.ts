import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from 'node:fs';
import { open, stat } from 'node:fs/promises';

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
export function readBoundedSync(path: string, maxBytes: number, isAnyKindRead = false): Buffer {
  const found = statSync(path, { throwIfNoEntry: false }); // opening reports a missing file
  if (found && !isAnyKindRead) refuseOthers(found);
  const descriptor = openSync(path, isAnyKindRead ? constants.O_RDONLY : AT_ONCE);
  try {
    const stats = fstatSync(descriptor);
    if (!isAnyKindRead) refuseOthers(stats);
    const content = new Content(stats, maxBytes);
    while (content.add(readSync(descriptor, content.chunk)));
    return content.read();
  } finally {
    closeSync(descriptor);
  }
}

/** Like `readBoundedSync`, off the event loop. */
export async function readBounded(path: string, maxBytes: number, isAnyKindRead = false): Promise<Buffer> {
  if (!isAnyKindRead) refuseOthers(await stat(path));
  const file = await open(path, isAnyKindRead ? constants.O_RDONLY : AT_ONCE);
  try {
    const stats = await file.stat();
    if (!isAnyKindRead) refuseOthers(stats);
    const content = new Content(stats, maxBytes);
    while (content.add((await file.read(content.chunk)).bytesRead));
    return content.read();
  } finally {
    await file.close();
  }
}

/** The part of a file that has been read. */
class Content {
  readonly #maxBytes: number;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  /** The buffer for the next read. */
  chunk: Buffer;

  constructor({ size }: Stats, maxBytes: number) {
    if (size > maxBytes) throw tooMany(maxBytes, String(size));
    this.#maxBytes = maxBytes;
    this.chunk = Buffer.allocUnsafe(Math.max(size + 1, CHUNK_BYTES)); // one more: the first read finds the end
  }

  /** Keeps the bytes read into the chunk. @returns  whether there may be more */
  add(bytes: number): boolean {
    if (bytes === 0) return false;
    this.#bytes += bytes;
    if (this.#bytes > this.#maxBytes) throw tooMany(this.#maxBytes, 'more');
    this.#chunks.push(this.chunk.subarray(0, bytes));
    this.chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    return true;
  }

  read(): Buffer {
    return Buffer.concat(this.#chunks);
  }
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
