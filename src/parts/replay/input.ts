import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { type Duplex, Readable } from 'node:stream';
import * as zlib from 'node:zlib';
import { CommandFailed } from '../lab/commands/client.ts';
import type { RecordedRequest, RecordedTraffic } from './request.ts';

/** A source of lines: a file or standard input. */
export interface Input {
  /** Name for messages, a path or `standard input`. */
  readonly name: string;
  /** Stored size in octets, compressed or not; undefined if unknown until the end. */
  readonly bytes: number | undefined;
  open(): Readable;
}

export const STANDARD_INPUT = '-';

/** Octets that are read or decompressed at a time. */
const CHUNK_BYTES = 256 * 1024;

/** @throws CommandFailed if there is no such file */
export async function openInput(path: string, standardInput: Readable): Promise<Input> {
  if (path === STANDARD_INPUT) return { name: 'standard input', bytes: undefined, open: () => standardInput };
  const found = await orFail(path, () => stat(path));
  if (found.isDirectory()) throw new CommandFailed(`${path}: is a directory: name its files`);
  const bytes = found.isFile() ? found.size : undefined; // a pipe has no size
  return { name: path, bytes, open: () => createReadStream(path, { highWaterMark: CHUNK_BYTES }) };
}

/** Uses a file. @throws CommandFailed with its path and the reason if it cannot be read or written */
export async function orFail<T>(path: string, use: () => Promise<T>): Promise<T> {
  try {
    return await use();
  } catch (error) {
    throw new CommandFailed(`${path}: ${error instanceof Error ? error.message : error}`);
  }
}

/** Maximum characters of a line; the rest is dropped, so a longer line counts as broken. */
const MAX_LINE_CHARACTERS = 1_048_576;

/** Octets of that many characters and a byte order mark; a UTF-16 code unit takes at most three in UTF-8. */
const MAX_LINE_BYTES = 3 * (MAX_LINE_CHARACTERS + 1);

const LINE_FEED = 0x0a;
const BYTE_ORDER_MARK = '\ufeff';

/**
 * Reads the lines of an input, one batch per chunk, without line endings but with empty lines.
 *
 * @throws CommandFailed if it cannot be read
 */
export async function* readLines(input: Input, counts?: TrafficCounts): AsyncGenerator<readonly string[]> {
  let begun: Uint8Array = new Uint8Array(0);
  let isFirst = true;
  const decoded = (octets: Buffer): string => {
    const text = octets.toString(); // a streaming decoder takes several times as long
    const isMarked = isFirst && text.startsWith(BYTE_ORDER_MARK);
    isFirst = false;
    return isMarked ? text.slice(1) : text;
  };
  for await (const chunk of readChunks(input, counts)) {
    const end = chunk.lastIndexOf(LINE_FEED); // an octet of this value is never part of another character
    if (end < 0) {
      if (begun.length < MAX_LINE_BYTES) begun = Buffer.concat([begun, chunk]).subarray(0, MAX_LINE_BYTES);
      continue;
    }
    const text = decoded(Buffer.concat([begun, chunk.subarray(0, end)]));
    yield text.split('\n').map(trimmed);
    begun = chunk.subarray(end + 1);
  }
  const last = decoded(Buffer.from(begun));
  if (last !== '') yield [trimmed(last)];
}

function trimmed(line: string): string {
  const read = line.length > MAX_LINE_CHARACTERS ? line.slice(0, MAX_LINE_CHARACTERS) : line;
  return read.endsWith('\r') ? read.slice(0, -1) : read;
}

/**
 * Reads the octets of an input, decompressed if it begins like gzip or Zstandard. A truncated input, such as a file
 * that is still being written, is read as far as possible.
 *
 * @throws CommandFailed if it cannot be read
 */
async function* readChunks(input: Input, counts?: TrafficCounts): AsyncIterable<Buffer> {
  const opened = input.open();
  const stored = counting(opened, counts);
  let isAny = false;
  try {
    const first = await stored.next();
    if (first.done) return;
    const all = prepended(first.value, stored);
    const decompress = decompressorFor(first.value, input.name);
    if (!decompress) {
      yield* all;
      return;
    }
    const source = Readable.from(all, { objectMode: false });
    source.on('error', (error) => decompress.destroy(error));
    for await (const chunk of source.pipe(decompress)) {
      isAny = true;
      yield chunk as Buffer; // a stream of octets
    }
  } catch (error) {
    if (error instanceof CommandFailed) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    if (!isAny || !isTruncation(error)) throw new CommandFailed(`${input.name}: ${reason}`);
    counts?.notes.add(`${input.name} is cut off: ${reason}`);
  } finally {
    opened.destroy(); // the reader may stop early
  }
}

async function* counting(stream: Readable, counts?: TrafficCounts): AsyncGenerator<Buffer> {
  for await (const chunk of stream) {
    const bytes = chunk as Buffer; // no encoding is set
    if (counts) counts.bytes += bytes.length;
    yield bytes;
  }
}

async function* prepended(first: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield first;
  yield* rest;
}

const isTruncation = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'Z_BUF_ERROR' || error.code === 'Z_DATA_ERROR');

const ZSTANDARD_MAGIC = 0x28b52ffd;

/** @see https://www.rfc-editor.org/rfc/rfc1952 and https://www.rfc-editor.org/rfc/rfc8878 */
function decompressorFor(head: Buffer, name: string): Duplex | undefined {
  if (head[0] === 0x1f && head[1] === 0x8b) return zlib.createGunzip({ chunkSize: CHUNK_BYTES });
  if (head.length < 4 || head.readUInt32BE(0) !== ZSTANDARD_MAGIC) return undefined;
  const { createZstdDecompress } = zlib as ZlibWithZstandard;
  if (createZstdDecompress) return createZstdDecompress({ chunkSize: CHUNK_BYTES });
  throw new CommandFailed(`${name}: Zstandard needs Node 22.15; pipe it through zstd -dc`);
}

/** Available from Node 22.15 on. */
interface ZlibWithZstandard {
  readonly createZstdDecompress?: (options: { readonly chunkSize: number }) => Duplex;
}

/**
 * Reads the next lines of one file. One result per line: what it says, a text with its error, or undefined if it is not
 * a request.
 */
export type LineReader<T = RecordedRequest> = (lines: readonly string[]) => readonly (T | string | undefined)[];

/** Maximum number of broken lines shown. */
const MAX_SHOWN = 5;

/** Counts the lines and requests of the input. */
export class TrafficCounts {
  lines = 0;
  broken = 0;
  /** Requests that arrived too late to be sorted by time. */
  late = 0;
  /** Requests for which the proxy would not have called the service, since no action of the mapping has a value. */
  unmapped = 0;
  /** Stored octets that were read. */
  bytes = 0;
  /** The first broken lines: `access.log:17: expected a JSON object`. */
  readonly examples: string[] = [];
  /** Further notes on the input for the operator, without duplicates. */
  readonly notes = new Set<string>();

  /** @param what  place and reason */
  addBroken(what: string): void {
    if (++this.broken <= MAX_SHOWN) this.examples.push(what);
  }
}

/** The requests of one input, in the order of its lines. */
export async function* readRequests(input: Input, read: LineReader, counts: TrafficCounts): RecordedTraffic {
  let number = 0;
  for await (const lines of readLines(input, counts)) {
    const batch: RecordedRequest[] = [];
    for (const found of read(lines)) {
      number++;
      if (typeof found === 'string') counts.addBroken(`${input.name}:${number}: ${found}`);
      else if (found) batch.push(found);
    }
    counts.lines += lines.length;
    if (batch.length > 0) yield batch;
  }
}
