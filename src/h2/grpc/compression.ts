import { gunzipSync, inflateSync } from 'node:zlib';
import { GrpcError, status } from './grpc-status.ts';

type Decompress = (bytes: Buffer, options: { maxOutputLength: number }) => Buffer;

const decompressors = new Map<string, Decompress>([
  ['gzip', gunzipSync],
  ['deflate', inflateSync],
]);

/** DEFLATE's largest compression ratio (RFC 1951): matches of 258 octets, two bits each. */
const MAX_RATIO = 1_032;
/** Length of the trailing field of a gzip stream, its uncompressed size (RFC 1952, 2.3.1). */
const GZIP_SIZE_BYTES = 4;

/** Whether this message encoding is supported. */
export const isEncoding = (name: string): boolean => name === 'identity' || decompressors.has(name);

/** Upper bound for the unpacked size. A gzip stream states its size, which `decompress` enforces. */
export const unpackedBound = (encoding: string, bytes: Buffer, from: number, to: number): number =>
  Math.min(gzipSize(encoding, bytes, from, to) ?? Number.POSITIVE_INFINITY, (to - from) * MAX_RATIO);

const gzipSize = (encoding: string, bytes: Buffer, from: number, to: number): number | undefined =>
  encoding === 'gzip' && to - from >= GZIP_SIZE_BYTES ? bytes.readUInt32LE(to - GZIP_SIZE_BYTES) : undefined;

/**
 * Unpacks a compressed message.
 *
 * @param maxBytes  limit of the unpacked size
 * @throws GrpcError  RESOURCE_EXHAUSTED: the message is larger; INTERNAL: it is not valid for this encoding
 */
export function decompress(encoding: string, bytes: Buffer, maxBytes: number): Buffer {
  const unpack = decompressors.get(encoding);
  if (!unpack) throw new GrpcError(status.INTERNAL, 'a message is compressed, but grpc-encoding is missing');
  const size = gzipSize(encoding, bytes, 0, bytes.length) ?? maxBytes;
  if (size > bytes.length * MAX_RATIO && encoding === 'gzip') throw notCompressed(encoding);
  if (size > maxBytes) throw tooLarge(maxBytes);
  try {
    return unpack(bytes, { maxOutputLength: Math.max(size, 1) });
  } catch (error) {
    const isTooLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE'; // zlib's errors have a code
    throw isTooLarge && size === maxBytes ? tooLarge(maxBytes) : notCompressed(encoding);
  }
}

const notCompressed = (encoding: string): GrpcError =>
  new GrpcError(status.INTERNAL, `a message is not valid ${encoding}`);

const tooLarge = (maxBytes: number): GrpcError =>
  new GrpcError(status.RESOURCE_EXHAUSTED, `a decompressed message may have at most ${maxBytes} bytes`);
